package simulation

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/workload"
)

func meshWorkload(t testing.TB, name string, requests int) *workload.Workload {
	t.Helper()
	w, err := workload.Generate(name, workload.Options{Seed: 1, Requests: requests, Replicas: 4})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func playMesh(t testing.TB, cfg Config, schedule string) MeshReport {
	t.Helper()
	faults, err := ParseFaults(strings.NewReader(schedule))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := EvaluateMesh(cfg, FaultConfig{Faults: append([]Fault{}, faults...)})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range rep.Mesh.Violations {
		t.Error(v)
	}
	if rep.Completed+rep.Failed != rep.Requests {
		t.Errorf("%d of %d requests completed, %d failed", rep.Completed, rep.Requests, rep.Failed)
	}
	return rep
}

// The claim of the project, on the real code: eight routers find what one
// finds, and answer as soon.
func TestMeshEqualsOneRouter(t *testing.T) {
	w := meshWorkload(t, "multi_turn", 400)
	one := playMesh(t, Config{Workload: w, Peers: 1, Replicas: 4, Seed: 1, Speedup: 3}, "")
	eight := playMesh(t, Config{Workload: w, Peers: 8, Replicas: 4, Seed: 1, Speedup: 3}, "")
	t.Logf("hit %.3f and %.3f, mean first token %.1f and %.1f ms", one.HitRatio, eight.HitRatio, one.TTFT.Mean, eight.TTFT.Mean)
	if eight.HitRatio < one.HitRatio-0.02 {
		t.Errorf("eight peers hit %.3f, one %.3f", eight.HitRatio, one.HitRatio)
	}
	if eight.TTFT.Mean > 1.10*one.TTFT.Mean {
		t.Errorf("eight peers: first token after %.1f ms in the mean, one: %.1f", eight.TTFT.Mean, one.TTFT.Mean)
	}
	if eight.FollowUpCached < 0.9 || eight.SameReplica < 0.97 {
		t.Errorf("follow-ups: %.3f cached, %.3f on the same replica", eight.FollowUpCached, eight.SameReplica)
	}
	if eight.GossipBytes == 0 || one.GossipBytes != 0 {
		t.Errorf("gossip bytes: %d with eight peers, %d with one", eight.GossipBytes, one.GossipBytes)
	}
	for _, rep := range []*MeshReport{&one, &eight} {
		if !rep.OK() || rep.Failed > 0 {
			t.Errorf("%d failed, converged %v", rep.Failed, rep.Mesh.Converged)
		}
	}
}

// Each fault may cost what it must, and no more.
func TestMeshUnderFaults(t *testing.T) {
	for name, c := range map[string]struct {
		schedule string
		lost     bool // answers are cut
		first    bool // answers are first tokens alone, eight times as slow
	}{
		"cut":           {"at=10s for=15s cut a b\nat=20s for=10s cut c>d", false, false},
		"slow":          {"at=10s for=20s slow a 50x", false, false},
		"drain, join":   {"at=10s drain a\nat=15s join", false, false},
		"kill":          {"at=10s for=5s kill a\nat=25s kill b", true, false},
		"kill early":    {"at=4s for=2s kill a\nat=7s for=2s kill b\nat=9s for=2s kill c\nat=12s for=2s kill d\nat=15s kill a", false, true},
		"restart":       {"at=10s for=2s restart r0\nat=20s for=2s restart r1", true, false},
		"restart early": {"at=6s for=1s restart r0\nat=6s for=1s restart r1\nat=6s for=1s restart r2\nat=6s for=1s restart r3\nat=12s restart r0\nat=12s restart r1\nat=12s restart r3", false, true},
		"events":        {"at=5s for=30s drop-events r0 0.2\nat=5s for=30s repeat-events r1 0.2", false, false},
		"stall":         {"at=10s for=4s stall a", false, false},
		"all": {`at=5s for=20s drop-events r0 0.1
			at=8s for=5s cut a b
			at=10s for=1s restart r2
			at=12s for=5s kill c
			at=15s join
			at=20s drain d
			at=22s for=5s skew a +3s`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := meshWorkload(t, "multi_turn", 200)
			cfg := Config{Workload: w, Peers: 4, Replicas: 4, Seed: 1, Speedup: 8}
			if c.first {
				cfg.Prefill, cfg.Slow = true, []float64{8}
			}
			rep := playMesh(t, cfg, c.schedule)
			t.Logf("hit %.3f, first token %.0f ms, %d lost in flight, %d tries again, equal after %d ms",
				rep.HitRatio, rep.TTFT.Mean, rep.InFlightLost, rep.Retried, rep.Mesh.ConvergedMs)
			if !rep.OK() {
				t.Errorf("failed %d, lost in flight %d, converged %v", rep.Failed, rep.InFlightLost, rep.Mesh.Converged)
			}
			if (rep.InFlightLost > 0) != c.lost {
				t.Errorf("%d answers were cut", rep.InFlightLost)
			}
			if c.first && rep.Retried == 0 {
				t.Error("nobody tried again")
			}
		})
	}
}

func TestMeshUnderRandomFaults(t *testing.T) {
	w := meshWorkload(t, "multi_turn", 120)
	seeds := uint64(4)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		cfg := Config{Workload: w, Peers: 4, Replicas: 3, Seed: seed, Speedup: 8}
		rep, err := EvaluateMesh(cfg, FaultConfig{Duration: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range rep.Mesh.Violations {
			t.Errorf("seed %d: %s\n%s", seed, v, rep.Mesh.Schedule)
		}
		if rep.Completed+rep.Failed != rep.Requests {
			t.Errorf("seed %d: %d of %d completed, %d failed", seed, rep.Completed, rep.Requests, rep.Failed)
		}
	}
}

func TestMeshIsDeterministic(t *testing.T) {
	w := meshWorkload(t, "multi_turn", 60)
	cfg := Config{Workload: w, Peers: 3, Replicas: 2, Seed: 7, Speedup: 4}
	const schedule = "at=5s for=3s kill a\nat=6s for=2s restart r0\nat=9s for=2s cut b c"
	a, b := playMesh(t, cfg, schedule), playMesh(t, cfg, schedule)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("two runs differ:\n%+v\n%+v", a, b)
	}
}

func TestMeshRefusesThePooledReference(t *testing.T) {
	w := meshWorkload(t, "multi_turn", 10)
	if _, err := EvaluateMesh(Config{Workload: w, Policy: Pooled}, FaultConfig{}); err == nil {
		t.Error("the reference has no peers to fail")
	}
	if _, err := EvaluateMesh(Config{Workload: w, Peers: 2}, FaultConfig{Faults: []Fault{{Verb: "kill", Peer: "z"}}}); err == nil {
		t.Error("a peer that is none may be killed")
	}
}
