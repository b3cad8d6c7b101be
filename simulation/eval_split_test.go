package simulation

import (
	"math"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// divided is one prefill and three decode replicas under shared system prompts.
func divided(t *testing.T, mode string) Config {
	t.Helper()
	w := generated(t, "zipf", workload.Options{Seed: 1, Requests: 2000, Replicas: 4})
	return Config{
		Workload: w, Replicas: 4, PrefillReplicas: 1, Peers: 4, LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05, Speedup: 2, Seed: 1,
		Routing: routing(func(c *policy.Config) { c.Disagg.Mode = mode }),
	}
}

func TestE7SharedRequestsAreOverAndCountedOut(t *testing.T) {
	for _, mode := range []string{policy.DisaggThreshold, policy.DisaggConditional} {
		cfg, err := divided(t, mode).complete()
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRun(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.play(); err != nil {
			t.Fatal(err)
		}
		rep := r.report()
		if rep.Completed != rep.Requests || rep.Shared == 0 || rep.Shared == rep.Requests {
			t.Errorf("E7: %s: completed %d, shared %d of %d", mode, rep.Completed, rep.Shared, rep.Requests)
		}
		if rep.PerReplica[0] != 0 {
			t.Errorf("E7: %s: the prefill replica answered %d requests", mode, rep.PerReplica[0])
		}
		r.views.advance(math.Inf(1))
		for k := range cfg.Replicas {
			if l := sees(r, 0, k); !same(l, crdt.Load{}) {
				t.Errorf("E7: %s: replica %d is left with %+v", mode, k, l)
			}
		}
	}
}

// Published by simulation: 2-3 times.
func TestQueueAwareDisaggregationBeatsAFixedThreshold(t *testing.T) {
	fixed, aware := evaluate(t, divided(t, policy.DisaggThreshold)), evaluate(t, divided(t, policy.DisaggConditional))
	t.Logf("threshold %.0f ms, %d shared; queue-aware %.0f ms, %d shared", fixed.TTFT.Mean, fixed.Shared, aware.TTFT.Mean, aware.Shared)
	if 1.5*aware.TTFT.Mean > fixed.TTFT.Mean {
		t.Errorf("queue-aware %.0f ms, threshold %.0f ms", aware.TTFT.Mean, fixed.TTFT.Mean)
	}
}
