package router

import (
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/ingest"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// Only an owner gives slots up, only after the mesh and the engine said that
// they have none, and only some time after that (property 21, HastyLoss).
func TestOnlyAnOwnerDeclaresLosses(t *testing.T) {
	p := quietPeer(t, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "r", URL: "http://127.0.0.1:1", Engine: "vllm", Events: "tcp://127.0.0.1:1"}}
	})
	g, id := p.ingest, p.fleet.List()[0].Stream
	p.readiness.joined.Store(true) // its mesh is not started
	g.reconcile(t.Context(), time.Now())
	defer g.stopAll()
	if g.follow[id] == nil {
		t.Fatal("the only peer does not follow its only stream")
	}
	for _, seq := range []uint64{1, 3} {
		var b crdt.Builder
		slot, err := b.Slot(seq, int64(seq))
		if err != nil {
			t.Fatal(err)
		}
		g.Deliver(kvevents.Delivery{Stream: id, Epoch: 100, Anchor: 1, Slots: []crdt.Slot{slot}, ReceivedAt: time.Now()})
	}
	hole := []crdt.Span{{From: 2, To: 2}}
	holes := func() int { return len(p.index.Holes(id)) }
	// Each case begins with nothing said.
	declared := func(owner, absent bool, after time.Duration) bool {
		g.mu.Lock()
		g.follow[id].hold = ingest.Hold{}
		if !owner {
			g.follow[id].hold.Look(-1, 0, 0)
		}
		g.losses = gossip.Losses{}
		g.mu.Unlock()
		if absent {
			g.missing(id, hole)
		}
		g.Exhausted(id, 100, hole)
		g.declare(time.Now().Add(after))
		return holes() == 0
	}
	if holes() != 1 {
		t.Fatalf("%d holes, want one", holes())
	}
	for _, c := range []struct {
		name          string
		owner, absent bool
		after         time.Duration
	}{
		{"by a peer that owns the stream no more", false, true, 10 * time.Second},
		{"though no peer was asked", true, false, 10 * time.Second},
		{"at once", true, true, 0},
	} {
		if declared(c.owner, c.absent, c.after) {
			t.Fatalf("declared lost %s", c.name)
		}
	}
	if !declared(true, true, 10*time.Second) {
		t.Error("an owner, asked and waited, did not declare the hole lost")
	}
}
