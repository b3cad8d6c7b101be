package simulation

import (
	"testing"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// TestAReplicaIsLostAndOneAdded: everything is answered all the same, the lost
// one's requests elsewhere, and who is not there gets none.
func TestAReplicaIsLostAndOneAdded(t *testing.T) {
	w, err := workload.Generate("coding", workload.Options{Seed: 2, Requests: 400, Replicas: 4})
	if err != nil {
		t.Fatal(err)
	}
	last := w.Requests[len(w.Requests)-1].At
	for _, name := range []string{"ttft", "least_loaded", "sticky", Pooled} {
		cfg := Config{Workload: w, Policy: name, Replicas: 4, Peers: 2, Page: 512, KVTokens: 250_000, Seed: 1, DispatchDelay: .001, LoadDelay: .01, IndexDelay: .05}
		cfg.Pin = name == "least_loaded"
		whole, err := Evaluate(cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Away = []Away{{Replica: 0, From: .3 * last, To: .6 * last}, {Replica: 1, From: .5 * last}, {Replica: 2, To: .2 * last}}
		hurt, err := Evaluate(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if hurt.Completed != len(w.Requests) {
			t.Errorf("%s: %d of %d completed", name, hurt.Completed, len(w.Requests))
		}
		if whole.Retried != 0 || hurt.Retried == 0 {
			t.Errorf("%s: %d retried with all replicas, %d without", name, whole.Retried, hurt.Retried)
		}
		if hurt.PerReplica[1] >= hurt.PerReplica[3] {
			t.Errorf("%s: the replica that went for good got %v", name, hurt.PerReplica)
		}
		again, _ := Evaluate(cfg)
		if again.TTFT != hurt.TTFT {
			t.Errorf("%s: two runs differ: %v and %v", name, hurt.TTFT, again.TTFT)
		}
	}
	for _, away := range [][]Away{{{Replica: 4}}, {{From: 2, To: 1}}, {{From: -1}}, {{Replica: 0}, {Replica: 1}, {Replica: 2}, {Replica: 3}}} {
		if (Config{Workload: w, Replicas: 4, Away: away}).Validate() == nil {
			t.Errorf("%+v is taken", away)
		}
	}
}
