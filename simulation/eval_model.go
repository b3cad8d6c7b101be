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

// meter is an exponential average over a time constant.
type meter struct {
	over       float64 // seconds
	sum, count float64
	at, since  float64
	started    bool
}

func newMeter(over float64) meter { return meter{over: over} }

func (m *meter) add(now, v float64) {
	if !m.started {
		m.started, m.since, m.at = true, now, now
	}
	fade := math.Exp((m.at - now) / m.over)
	m.sum, m.count, m.at = m.sum*fade+v, m.count*fade+1, now
}

// perSecond is the rate of events, right from the beginning on.
func (m *meter) perSecond(now float64) float64 {
	if !m.started || now <= m.since {
		return 0
	}
	return m.count * math.Exp((m.at-now)/m.over) / (m.over * (1 - math.Exp((m.since-now)/m.over)))
}

// mean is the average value of recent events.
func (m *meter) mean() float64 {
	if m.count == 0 {
		return 0
	}
	return m.sum / m.count
}

// scrape is the load figures that the engines tell, as they were read last.
type scrape struct {
	at    float64
	stats []replica.Stats
}

// refresh reads them again if that was at least so many seconds ago.
func (s *scrape) refresh(now, every float64, engines []*replica.Replica) {
	if s.stats != nil && now < s.at+every {
		return
	}
	s.at = now
	s.stats = s.stats[:0]
	for _, e := range engines {
		s.stats = append(s.stats, e.Stats())
	}
}

func (s *scrape) fill(k int, c *policy.Candidate, page int64) {
	st := &s.stats[k]
	c.Running, c.Queued, c.KVUse = st.Running, st.Waiting, st.KVUse()
	c.Capacity = int64(st.Blocks) * page
}
