package gossip_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// TestAMemberOutOfReachIsWaitedFor: slots that only a member has whose
// connections are down are not missing while it may come back.
func TestAMemberOutOfReachIsWaitedFor(t *testing.T) {
	n, nodes := mesh(t, 3, Config{Seed: 2})
	a, b, c := nodes[0], nodes[1], nodes[2]
	e := n.Engine("http://r")
	slots := e.Emit(3)
	for _, x := range []*Node{a, b} {
		n.Cut(x, c)
		n.Cut(c, x)
		n.Break(x, c)
	}
	c.State.Apply(&crdt.Delta{Stream: e.Stream, Epoch: e.Epoch, Anchor: 1, Slots: slots[1:2]}, n.Now())
	e.Ingest(a, true, slots[0], slots[2])
	n.Run(2_500)
	if len(a.Missing) > 0 {
		t.Fatal("nobody waits for a member that is out of reach")
	}
	n.Heal()
	converge(t, n, 5_000)
	if len(a.Missing) > 0 {
		t.Errorf("missing is %v, which c had", a.Missing)
	}
}

// TestHolesThatGrewAreAskedForAnew: who answered that it lacks one slot did not
// say that it lacks the next one too.
func TestHolesThatGrewAreAskedForAnew(t *testing.T) {
	for seed := range uint64(16) { // when digests go depends on it
		n, nodes := mesh(t, 3, Config{Seed: seed})
		a, holder := nodes[0], nodes[1+seed%2] // asked first, or second
		n.Link(nodes[1], a).BulkMs, n.Link(nodes[2], a).BulkMs = 300, 300
		e := n.Engine("http://r")
		slots := e.Emit(5)
		e.Ingest(a, true, slots[0], slots[2])
		n.Run(550) // the first has answered, the other's answer is on its way
		holder.State.Apply(&crdt.Delta{Stream: e.Stream, Epoch: e.Epoch, Anchor: 1, Slots: slots[3:4]}, n.Now())
		e.Ingest(a, true, slots[4])
		n.Run(5_000)
		for _, m := range a.Missing {
			if crdt.Spans(m.Spans).Has(4) {
				t.Errorf("seed %d: slots %v are missing, it says, and %s has 4", seed, m.Spans, holder.Name)
			}
		}
	}
}

// TestStagedBytesAreBoundedTogether: of two snapshots that come at once and
// together are too large one waits for the other.
func TestStagedBytesAreBoundedTogether(t *testing.T) { // I5
	const most = 3_000
	n, nodes := mesh(t, 2, Config{Seed: 2, CutMs: 300, State: smallRing, Core: gossip.Config{Limits: gossip.Limits{StagedBytes: most}}})
	for _, url := range []string{"http://r", "http://s"} {
		e := n.Engine(url)
		e.Calm = true
		for range 60 {
			e.Ingest(nodes[0], true, e.Emit(1)...)
			n.Run(5)
		}
	}
	c := n.Add()
	largest := 0
	converged := n.RunUntil(60_000, func() bool {
		got := c.Core.Stats().StagedBytes
		if largest = max(largest, got); got > most {
			t.Fatalf("%d bytes staged", got)
		}
		return difference(n) == ""
	})
	t.Logf("staged %d, joined %d, %v", largest, c.Snaps, c.Core.Stats().Dropped)
	if !converged {
		t.Error("not caught up")
	}
}
