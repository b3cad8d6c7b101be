package gossip_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
)

// TestRemovedReplicasStayRemoved is property 13 for replicas: peers stop wanting
// streams at times far apart, and forget them by their own clocks; others join
// meanwhile. Nothing comes back, and what all want is the same everywhere.
func TestRemovedReplicasStayRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var unwanted []map[crdt.StreamID]bool // by node
		cfg := Config{Seed: rapid.Uint64().Draw(t, "seed")}
		cfg.Tweak = func(i int, c *gossip.Config) {
			c.Wants = func(id crdt.StreamID) bool { return !unwanted[i][id] }
		}
		n := New(cfg)
		add := func(without ...crdt.StreamID) {
			not := map[crdt.StreamID]bool{}
			for _, id := range without {
				not[id] = true
			}
			unwanted = append(unwanted, not)
			n.Add()
		}
		for range rapid.IntRange(2, 4).Draw(t, "peers") {
			add()
		}
		n.RunUntil(10_000, func() bool { return allReady(n) })
		stays, leaves := n.Engine("stays"), n.Engine("leaves")
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			for i, e := range []*Engine{stays, leaves} {
				e.Calm = true
				e.Ingest(n.Nodes()[i], true, e.Emit(rapid.IntRange(1, 30).Draw(t, "slots"))...)
			}
		}
		converge(t, n, 20_000)
		for i := 0; i < len(n.Nodes()); i++ {
			if rapid.Bool().Draw(t, "another joins") && len(n.Nodes()) < 6 {
				add(leaves.Stream)
			}
			n.Run(int64(rapid.IntRange(0, 6_000).Draw(t, "ms")))
			unwanted[i][leaves.Stream] = true
			n.Nodes()[i].State.Remove(leaves.Stream)
			if rapid.Bool().Draw(t, "more batches") {
				stays.Ingest(n.Nodes()[0], true, stays.Emit(3)...)
			}
		}
		n.Run(10_000)
		converge(t, n, 20_000)
		for _, x := range n.Nodes() {
			if ids := fmt.Sprint(x.State.Streams(nil)); ids != fmt.Sprint([]crdt.StreamID{stays.Stream}) {
				t.Fatalf("%s holds %s", x.Name, ids)
			}
			if s := x.Core.Stats(); s.Pulls > 0 || s.Divergent > 0 || !x.Ready {
				t.Fatalf("%s: ready %v, %+v", x.Name, x.Ready, s)
			}
		}
	})
}

// TestWhatOneDoesNotListIsNotPulled: a peer that lists less than the others is
// ready, asks for nothing, and asks once it lists more.
func TestWhatOneDoesNotListIsNotPulled(t *testing.T) {
	wanted := false
	n, nodes := mesh(t, 3, Config{Tweak: func(i int, c *gossip.Config) {
		if i == 2 {
			c.Wants = func(crdt.StreamID) bool { return wanted }
		}
	}})
	e := n.Engine("r")
	e.Ingest(nodes[0], true, e.Emit(20)...)
	n.Run(10_000)
	s := nodes[2].Core.Stats()
	if len(nodes[2].State.Streams(nil)) > 0 || s.Wants > 0 || s.Dropped["unwanted"] == 0 || !nodes[2].Ready {
		t.Fatalf("holds %v, ready %v, %+v", nodes[2].State.Streams(nil), nodes[2].Ready, s)
	}
	wanted = true
	converge(t, n, 20_000)
}

// TestAPullEndsWithItsReplica: a replica leaves while its snapshot is awaited.
func TestAPullEndsWithItsReplica(t *testing.T) {
	wanted := true
	n, nodes := mesh(t, 2, Config{CutMs: 3_000, State: gossiptest.StateConfig{RingBytes: 1}, Tweak: func(i int, c *gossip.Config) {
		if i == 2 {
			c.Wants = func(crdt.StreamID) bool { return wanted }
		}
	}})
	e := n.Engine("r")
	e.Ingest(nodes[0], true, e.Emit(50)...)
	n.Run(1_000)
	late := n.Add()
	if !n.RunUntil(5_000, func() bool { return late.Core.Stats().Wants > 0 }) {
		t.Fatal("nothing is pulled")
	}
	wanted = false
	asked := late.Core.Stats().Wants
	n.Run(2_000) // a digest round, not the time that an answer may take
	if s := late.Core.Stats(); s.Pulls > 0 || s.Wants > asked || !late.Ready {
		t.Errorf("soon after: ready %v, %+v", late.Ready, s)
	}
	n.Run(60_000)
	if s := late.Core.Stats(); s.Pulls > 0 || len(late.State.Streams(nil)) > 0 || !late.Ready {
		t.Errorf("ready %v, holds %v, %+v", late.Ready, late.State.Streams(nil), s)
	}
}

// TestASnapshotOfALeftReplicaIsNotJoined: a replica leaves while its snapshot is
// on its way.
func TestASnapshotOfALeftReplicaIsNotJoined(t *testing.T) {
	wanted := true
	n, nodes := mesh(t, 2, Config{State: gossiptest.StateConfig{RingBytes: 1}, Tweak: func(i int, c *gossip.Config) {
		if i == 2 {
			c.Wants = func(crdt.StreamID) bool { return wanted }
		}
	}})
	e := n.Engine("r")
	e.Calm = true
	e.Ingest(nodes[0], true, e.Emit(50)...)
	converge(t, n, 10_000)
	late := n.Add()
	for _, x := range nodes {
		n.Link(x, late).BulkMs = 100
	}
	sent := func() uint64 { return nodes[0].Core.Stats().SnapshotsSent + nodes[1].Core.Stats().SnapshotsSent }
	if before := sent(); !n.RunUntil(10_000, func() bool { return sent() > before }) {
		t.Fatal("no snapshot is sent")
	}
	wanted = false
	if !n.RunUntil(500, func() bool { return late.Core.Stats().Dropped["piece"] > 0 || late.Snaps > 0 }) {
		t.Fatalf("the snapshot never comes: %+v", late.Core.Stats())
	}
	if late.Snaps > 0 || len(late.State.Streams(nil)) > 0 {
		t.Errorf("%d snapshots joined, holds %v", late.Snaps, late.State.Streams(nil))
	}
}

// diverging is a mesh of two of which b lost a fact in its memory, and its
// engine, whose slots b takes.
func diverging(t *testing.T, cfg Config) (*Net, []*Node, *Engine) {
	n, nodes := mesh(t, 2, cfg)
	e := n.Engine("r")
	e.Calm = true
	e.Ingest(nodes[1], true, e.Emit(20)...)
	converge(t, n, 10_000)
	nodes[1].State.Corrupt(e.Stream)
	return n, nodes, e
}

// TestADivergenceHealsWhereTheWrongBaseIsLonger: the one that is wrong takes the
// slots first and is always ahead of what it gets from the other.
func TestADivergenceHealsWhereTheWrongBaseIsLonger(t *testing.T) {
	n, nodes, e := diverging(t, Config{CutMs: 40})
	// What is told of a loss must not touch the lost block: it would be healed.
	emit := func() { e.Ingest(nodes[1], true, bare(e.Emit(1))...) }
	if !n.RunUntil(10_000, func() bool { emit(); return nodes[1].Core.Stats().Divergent > 0 }) {
		t.Fatal("no divergence")
	}
	facts := func(x *Node) uint64 { d, _ := x.State.Digest(e.Stream); return d.Base.Facts }
	if !n.RunUntil(10_000, func() bool { emit(); return facts(nodes[0]) == facts(nodes[1]) }) {
		t.Fatalf("not healed: %+v", nodes[1].Core.Stats())
	}
	if !n.RunUntil(10_000, func() bool { return difference(n) == "" && nodes[0].Core.Stats().Divergent == 0 }) {
		t.Fatalf("not converged: %q", difference(n))
	}
}

// bare makes batches that say nothing.
func bare(slots []crdt.Slot) []crdt.Slot {
	for i := range slots {
		slots[i].Body = nil
	}
	return slots
}

// TestADivergenceLeavesWithItsStream, lest it is an alarm for ever.
func TestADivergenceLeavesWithItsStream(t *testing.T) {
	wanted := true
	n, nodes, e := diverging(t, Config{CutMs: 60_000, Tweak: func(i int, c *gossip.Config) {
		c.Wants = func(crdt.StreamID) bool { return wanted || i == 0 }
	}})
	e.Ingest(nodes[1], true, bare(e.Emit(1))...)
	if !n.RunUntil(10_000, func() bool { return nodes[1].Core.Stats().Divergent > 0 }) {
		t.Fatal("no divergence")
	}
	wanted = false
	nodes[1].State.Remove(e.Stream)
	n.Run(5_000)
	if d := nodes[1].Core.Stats().Divergent; d > 0 {
		t.Errorf("%d streams are held for divergent that were forgotten", d)
	}
}

// TestWhatDoesNotFitIsNotPulled: a peer that cannot hold a stream asks for none
// of it, stays ready, and asks once it can.
func TestWhatDoesNotFitIsNotPulled(t *testing.T) {
	most := uint64(3)
	n, nodes := mesh(t, 2, Config{Tweak: func(i int, c *gossip.Config) {
		if i == 2 {
			c.Fits = func(_ crdt.StreamID, d *crdt.Digest) bool { return d.Base.Count <= most }
		}
	}})
	e := n.Engine("r")
	e.Calm = true
	e.Ingest(nodes[0], true, e.Emit(30)...)
	converge(t, n, 10_000)
	late := n.Add()
	n.Run(10_000)
	if s := late.Core.Stats(); s.Wants > 0 || s.Dropped["full"] == 0 || !late.Ready || len(late.State.Streams(nil)) > 0 {
		t.Fatalf("ready %v, holds %v, %+v", late.Ready, late.State.Streams(nil), s)
	}
	most = 1_000
	converge(t, n, 20_000)
}
