package simulation

import (
	"testing"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// TestBurstsDoNotHerd: requests with one beginning that come together through
// sixteen peers do not all go to the replica that holds it, though none is heard
// of before the last is sent.
func TestBurstsDoNotHerd(t *testing.T) {
	for _, c := range []struct {
		size   int
		within float64 // seconds
		most   float64 // times without
	}{{12, .0003, .75}, {43, .001, .75}, {12, .03, 1.03}} {
		w, err := workload.Bursts(workload.Burst{
			Size: c.size, Within: c.within, Bursts: 40, Gap: 3, Head: 4000, Own: 1500, Output: 64, Warm: true, Replicas: 16, Seed: 21,
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Workload: w, Peers: 16, LoadDelay: .01, DispatchDelay: .001, IndexDelay: .05, Seed: 21}
		ours := evaluate(t, cfg)
		cfg.Routing = routing(func(p *policy.Config) { p.TTFT.BurstCap = 0 })
		without := evaluate(t, cfg)
		t.Logf("%d within %v ms: %.0f ms, where nobody looks back %.0f ms", c.size, 1000*c.within, ours.TTFT.Mean, without.TTFT.Mean)
		if ours.TTFT.Mean > c.most*without.TTFT.Mean {
			t.Errorf("%d within %v ms: %.0f ms, where nobody looks back %.0f ms", c.size, 1000*c.within, ours.TTFT.Mean, without.TTFT.Mean)
		}
	}
}
