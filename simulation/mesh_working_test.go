package simulation

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// conversations are twenty of 60 k to 83 k tokens with 24 turns each, for two
// replicas whose caches hold five each.
func conversations(seed uint64) Config {
	w := &workload.Workload{Name: "conversations", Profile: "q32"}
	rng := rand.New(rand.NewPCG(seed, 0xc0))
	said := func(role workload.Role, tokens int) workload.Segment {
		return workload.Segment{ID: rng.Uint64(), Role: role, Tokens: tokens}
	}
	for session := range 20 {
		at, after := 10*(float64(session)+rng.Float64()), -1
		prompt := []workload.Segment{said(workload.User, 60_000)}
		for turn := range 24 {
			reply := said(workload.Assistant, 100)
			req := workload.Request{
				ID: len(w.Requests), At: at, Session: session, Turn: turn, After: after, Output: reply.Tokens, Reply: reply.ID,
				Prompt: slices.Clone(prompt), Tokens: 60_000 + 1_000*turn,
			}
			if turn > 0 {
				req.Think = 3 + 6*rng.Float64()
			}
			after, w.Requests = req.ID, append(w.Requests, req)
			prompt = append(prompt, reply, said(workload.User, 900))
		}
	}
	return Config{
		Workload: w, Replicas: 2, Peers: 3, Page: 512, KVTokens: 400_000, Seed: seed,
		LoadDelay: .01, DispatchDelay: .001, IndexDelay: .01,
	}
}

// TestWholePeersLetConversationsWait: what
// TestNewConversationsWaitWhereCachesAreTooSmall claims holds on whole peers, each
// of which measures by itself what is used. Both evaluations are equal to 15 %:
// requests come to other peers and at whole milliseconds, so other blocks are
// evicted; of three seeds the worst differs by 5 %.
func TestWholePeersLetConversationsWait(t *testing.T) {
	mean := map[float64]float64{}
	for _, share := range []float64{0, .8} {
		cfg := conversations(1)
		cfg.WorkingSet = share
		whole, modelled := playMesh(t, cfg, ""), evaluate(t, cfg)
		mean[share] = whole.TTFT.Mean
		t.Logf("working set %v: mean TTFT %.1f s with %d conversations that waited, Evaluate %.1f s with %d",
			share, whole.TTFT.Mean/1000, whole.Waited, modelled.TTFT.Mean/1000, modelled.Waited)
		if math.Abs(whole.TTFT.Mean/modelled.TTFT.Mean-1) > .15 {
			t.Errorf("working set %v: mean TTFT %.1f s, Evaluate says %.1f s", share, whole.TTFT.Mean/1000, modelled.TTFT.Mean/1000)
		}
		if !whole.OK() || whole.Failed > 0 || (whole.Waited > 0) != (share > 0) {
			t.Errorf("working set %v: %d failed, %d waited", share, whole.Failed, whole.Waited)
		}
	}
	if mean[.8] > .4*mean[0] {
		t.Errorf("mean TTFT %.1f s, %.1f s where nobody waits", mean[.8]/1000, mean[0]/1000)
	}
}

// TestConversationsOutliveThePeerWhereTheyWait: peers end, are cut off and drain
// while conversations wait there. Those are sent again, and all begin at last.
func TestConversationsOutliveThePeerWhereTheyWait(t *testing.T) {
	cfg := conversations(1)
	cfg.WorkingSet = .8
	const schedule = "at=120s for=5s kill a\nat=160s for=20s cut b c\nat=200s for=5s kill b\nat=230s drain c"
	rep := playMesh(t, cfg, schedule)
	t.Logf("%d waited, %d lost in flight, %d tries again", rep.Waited, rep.InFlightLost, rep.Retried)
	if !rep.OK() || rep.Waited == 0 || rep.Retried == 0 {
		t.Errorf("%d failed, %d lost in flight, %d waited, %d tries again", rep.Failed, rep.InFlightLost, rep.Waited, rep.Retried)
	}
	if again := playMesh(t, cfg, schedule); !reflect.DeepEqual(rep, again) {
		t.Errorf("E1: two runs differ:\n%+v\n%+v", rep, again)
	}
}
