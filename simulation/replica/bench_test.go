package replica

import (
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkFleet simulates 12,000 requests of 7,500 tokens in and 350 out on
// 16 replicas of 1 Mi tokens at a load of about 0.7: what one evaluation cell
// costs beside routing.
func BenchmarkFleet(b *testing.B) {
	p, _ := ProfileByName("q32")
	const fleet, requests = 16, 12000
	b.ReportAllocs()
	steps := uint64(0)
	for b.Loop() {
		rnd := rand.New(rand.NewPCG(1, 1))
		rs := make([]*Replica, fleet)
		for i := range rs {
			rs[i] = newTiny(b, Config{Profile: p})
		}
		now := 0.0
		for id := range uint64(requests) {
			now += rnd.ExpFloat64() / 18
			r := rs[id%fleet]
			for {
				if _, ok := r.Step(now); !ok {
					break
				}
			}
			prompt := 1 + int(7500*rnd.ExpFloat64())%60000
			out := 1 + int(350*rnd.ExpFloat64())
			keys := make([]uint64, (prompt+out)/16)
			chain := rnd.Uint64N(4000) << 32
			for i := range keys {
				keys[i] = chain + uint64(i)
			}
			mustSubmit(b, r, now, Request{ID: id, Prompt: prompt, Output: out, Keys: keys})
		}
		steps = 0
		for _, r := range rs {
			for {
				if _, ok := r.Step(math.Inf(1)); !ok {
					break
				}
			}
			steps += r.Stats().Steps
		}
	}
	b.ReportMetric(float64(steps), "steps")
}
