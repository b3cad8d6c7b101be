package simulation

import (
	"container/heap"
	"math"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// ratesOf is what a peer that knows an engine's profile believes. Tables are
// replaced by the line through a half and a whole chunk.
func ratesOf(p replica.Profile) policy.Rates {
	rates := policy.Rates{A: p.A, B: p.B, CQ: p.CQ, T0: p.D0, Chunk: p.Chunk, Speed: 1}
	if len(p.Linear) > 0 {
		linear := p
		linear.CQ = 0
		half, whole := linear.Prefill(p.Chunk/2, 0), linear.Prefill(p.Chunk, 0)
		rates.B = (whole - half) / float64(p.Chunk-p.Chunk/2)
		rates.A = math.Max(whole-rates.B*float64(p.Chunk), 0)
		rates.T0 = p.StepTime(replica.Work{Decodes: 1})
	}
	return rates
}

// slower stretches every time of a profile.
func slower(p replica.Profile, factor float64) replica.Profile {
	p.A, p.B, p.CQ = p.A*factor, p.B*factor, p.CQ*factor
	p.D0, p.D1, p.D2 = p.D0*factor, p.D1*factor, p.D2*factor
	linear := make([]replica.Point, 0, len(p.Linear))
	for _, at := range p.Linear {
		linear = append(linear, replica.Point{Tokens: at.Tokens, Seconds: at.Seconds * factor})
	}
	if p.Linear != nil {
		p.Linear = linear
	}
	return p
}

// arrival is a request that comes at a time; ties in order of the workload.
type arrival struct {
	at  float64
	job int
}

type arrivals struct{ h arrivalHeap }

func (a *arrivals) len() int       { return len(a.h) }
func (a *arrivals) first() float64 { return a.h[0].at }
func (a *arrivals) push(x arrival) { heap.Push(&a.h, x) }
func (a *arrivals) pop() arrival   { return heap.Pop(&a.h).(arrival) }

type arrivalHeap []arrival

func (h arrivalHeap) Len() int      { return len(h) }
func (h arrivalHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h arrivalHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].job < h[j].job
}
func (h *arrivalHeap) Push(x any) { *h = append(*h, x.(arrival)) }
func (h *arrivalHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
