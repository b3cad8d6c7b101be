package simulation

import (
	"testing"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// burstTTFT is the mean time to the first token of bursts of requests that
// share a beginning and come within so many seconds, in a fleet that is idle
// but for them: with so many peers, with one that knows all, and pooled.
func burstTTFT(t *testing.T, size, peers int, within float64, seed uint64) (mesh, one, pooled float64) {
	t.Helper()
	w, err := workload.Bursts(workload.Burst{
		Size: size, Within: within, Bursts: 30, Gap: 3, Head: 4000, Own: 1500, Output: 64, Warm: true, Replicas: 16, Seed: seed,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Workload: w, Policy: policy.Default, Replicas: 16, Peers: peers, From: w.Warm, Seed: seed, LoadDelay: .01, DispatchDelay: .001, IndexDelay: .005}
	alone, reference := cfg, cfg
	alone.Peers, alone.LoadDelay, alone.DispatchDelay, alone.IndexDelay = 1, 0, 0, 0
	reference.Policy = Pooled
	return evaluate(t, cfg).TTFT.Mean, evaluate(t, alone).TTFT.Mean, evaluate(t, reference).TTFT.Mean
}

// TestBurstsDoNotHerd: requests that come together through many peers, of whom
// none has heard what the others sent, are spread nearly as one router that
// knows all would spread them. Without second looks 12 within .3 ms take twice
// as long.
func TestBurstsDoNotHerd(t *testing.T) {
	for _, b := range []struct {
		size, peers int
		within      float64 // seconds
	}{
		{12, 16, .0003}, {12, 16, .005}, {2, 16, .001}, {43, 16, .001}, {100, 16, .001}, {12, 2, .001}, {12, 64, .001},
	} {
		mesh, one, pooled := burstTTFT(t, b.size, b.peers, b.within, 31)
		if mesh > 1.1*one {
			t.Errorf("%d within %g ms, %d peers: %.2f of pooled, one router %.2f", b.size, 1000*b.within, b.peers, mesh/pooled, one/pooled)
		}
	}
}

// TestBurstsDoNotHerdInAMesh: the same through whole peers, whose frames take
// their own time.
func TestBurstsDoNotHerdInAMesh(t *testing.T) {
	w, err := workload.Bursts(workload.Burst{
		Size: 12, Within: .0003, Bursts: 12, Gap: 3, Head: 4000, Own: 1500, Output: 16, Warm: true, Replicas: 8, Seed: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Workload: w, Policy: policy.Default, Replicas: 8, Peers: 6, From: w.Warm, Seed: 5, DispatchDelay: .001}
	run, err := newMeshRun(cfg, FaultConfig{Faults: []Fault{}})
	if err != nil {
		t.Fatal(err)
	}
	defer run.close()
	if err := run.play(); err != nil {
		t.Fatal(err)
	}
	rep := run.sumUp()
	alone, reference := cfg, cfg
	alone.Peers, alone.DispatchDelay = 1, 0
	reference.Policy = Pooled
	one, pooled := evaluate(t, alone).TTFT.Mean, evaluate(t, reference).TTFT.Mean
	t.Logf("mesh %.2f of pooled, one router %.2f, %d moved", rep.TTFT.Mean/pooled, one/pooled, run.moved)
	if run.moved == 0 || rep.TTFT.Mean > 1.15*one || !rep.OK() {
		t.Errorf("mesh %.2f of pooled, one router %.2f; %d moved; %+v", rep.TTFT.Mean/pooled, one/pooled, run.moved, rep.Mesh)
	}
}
