package simulation

import (
	"testing"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// TestSessionsAreSummedUp: forks are told apart, a pinned session stays with its
// subagents, and the reference with the caches that there are lies between the
// endless one and what policies reach.
func TestSessionsAreSummedUp(t *testing.T) {
	w, err := workload.Generate("coding", workload.Options{Seed: 2, Requests: 300})
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, pin bool) Report {
		rep, err := Evaluate(Config{Workload: w, Policy: name, Pin: pin, Replicas: 4, Peers: 2, Page: 512, KVTokens: 250_000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if rep.Completed != len(w.Requests) {
			t.Errorf("%s: %d of %d completed", name, rep.Completed, len(w.Requests))
		}
		return rep
	}
	endless, real, pinned := run(Pooled, false), run(PooledCaches, false), run("least_loaded", true)
	if pinned.SameReplica != 1 {
		t.Errorf("%.3f of a pinned session's turns stay", pinned.SameReplica)
	}
	if !(endless.HitRatio >= real.HitRatio && real.HitRatio >= pinned.HitRatio) {
		t.Errorf("found: endless %.3f, as large as the caches %.3f, pinned %.3f", endless.HitRatio, real.HitRatio, pinned.HitRatio)
	}
	if endless.Again > pinned.Again || endless.LiveTokens <= 0 || endless.SessionE2E <= 0 || endless.Turns.Mean <= 0 {
		t.Errorf("sessions of %+v", endless)
	}
	forks := 0
	for i := range w.Requests {
		if r := &w.Requests[i]; r.Lineage > 0 && r.Turn == 0 {
			forks++
		}
	}
	if (forks > 0) != (endless.Forks.Mean > 0) {
		t.Errorf("%d forks, mean %v ms", forks, endless.Forks.Mean)
	}
}
