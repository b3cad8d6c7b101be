package router

import (
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// Two owners may name one incarnation by different epochs. The one whose epoch
// lost must not go on delivering into the void.
func TestAnOutrankedStreamIsFollowedAnew(t *testing.T) {
	p := quietPeer(t, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "r", URL: "http://127.0.0.1:1", Engine: "vllm", Events: "tcp://127.0.0.1:1"}}
	})
	g, id := p.ingest, p.fleet.List()[0].Stream
	now := time.Now()
	p.joined.Store(true) // its mesh is not started
	g.reconcile(t.Context(), now)
	first := g.follow[id]
	if first == nil {
		t.Fatal("the only peer does not follow the stream")
	}
	defer g.stopAll()
	deliver := func(epoch, seq uint64) {
		var b crdt.Builder
		slot, err := b.Slot(seq, int64(seq))
		if err != nil {
			t.Fatal(err)
		}
		g.Deliver(kvevents.Delivery{Stream: id, Epoch: epoch, Anchor: 1, Slots: []crdt.Slot{slot}, ReceivedAt: now})
	}
	deliver(100, 1)
	var b crdt.Builder
	b.Clear()
	other, err := b.Slot(1, 7)
	if err != nil {
		t.Fatal(err)
	}
	p.index.Apply(&crdt.Delta{Stream: id, Epoch: 200, Anchor: 1, Slots: []crdt.Slot{other}}, now.UnixMilli()) // a peer's
	deliver(100, 2)
	g.reconcile(t.Context(), now.Add(time.Second))
	if g.follow[id] != first {
		t.Fatal("given up at the first refusal")
	}
	g.reconcile(t.Context(), now.Add(refusedFor+2*time.Second))
	g.reconcile(t.Context(), now.Add(refusedFor+2*time.Second))
	if again := g.follow[id]; again == nil || again == first {
		t.Error("still delivering under the outranked epoch")
	}
}

// An incarnation that a false alarm outranked is what the peer shows again once
// its tracker says so, under an epoch above the false one.
func TestARevivedIncarnationIsShown(t *testing.T) {
	p := quietPeer(t, nil)
	id := crdt.StreamID("http://127.0.0.1:1#0")
	store := func(epoch, seq uint64, ts int64, handle uint64) {
		var b crdt.Builder
		b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{handle}, []uint64{handle})
		slot, err := b.Slot(seq, ts)
		if err != nil {
			t.Fatal(err)
		}
		p.index.Apply(&crdt.Delta{Stream: id, Epoch: epoch, Anchor: 1, Slots: []crdt.Slot{slot}}, time.Now().UnixMilli())
	}
	store(100, 1, 1, 11)
	store(100, 2, 2, 12)
	store(200, 1, 9, 13)
	p.ingest.Revive(kvevents.Revival{Stream: id, Epoch: 77, Anew: true}) // never was one
	if prior, _ := p.index.Prior(id); prior.Epoch != 200 {
		t.Fatalf("epoch %d", prior.Epoch)
	}
	p.ingest.Revive(kvevents.Revival{Stream: id, Epoch: 100, Anew: true})
	d, _ := p.index.Digest(id)
	if d.Context.Epoch != 201 || d.Context.Floor != 2 || d.Base.Count != 2 {
		t.Errorf("revived as %+v", d)
	}
}
