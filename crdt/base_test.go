package crdt_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// TestTheBaseThatKnowsMoreWins has two halves of a mesh meet one process apart:
// one at its first slot, and hears few more; the other at its third, and hears
// all, with a ring that keeps only the last ones. Healed, nobody may give up
// the many for the sake of the first two, in whatever order they meet.
func TestTheBaseThatKnowsMoreWins(t *testing.T) {
	const n = 200
	l := drawnRun(t, n)
	build := func() (*peer, *peer, *peer) {
		a, b, c := newPeer(crdt.NewRing(2000), crdt.Limits{}), newPeer(crdt.NewRing(2000), crdt.Limits{}), newPeer(crdt.NewRing(2000), crdt.Limits{})
		for seq := uint64(1); seq <= 20; seq++ {
			a.Apply(&crdt.Delta{Epoch: l.epoch, Anchor: 1, Slots: l.slots[seq-1 : seq]}, 0)
		}
		for seq := uint64(3); seq <= n; seq++ {
			for _, p := range []*peer{b, c} {
				p.Apply(&crdt.Delta{Epoch: l.epoch, Anchor: 3, Slots: l.slots[seq-1 : seq]}, 0)
			}
		}
		return a, b, c
	}
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		a, b, c := build()
		peers := []*peer{a, b, c}
		turned := []*peer{peers[order[0]], peers[order[1]], peers[order[2]]}
		// A hears the engine again before it hears the mesh.
		a.Apply(&crdt.Delta{Epoch: l.epoch, Anchor: 1, Slots: l.slots[n-1 : n]}, 0)
		settleAll(t, turned, 0)
		checkEqual(t, peers)
		for i, p := range peers {
			x := p.Context()
			known := 0
			for seq := uint64(1); seq <= n; seq++ {
				if x.Knows(seq) {
					known++
				}
			}
			if known < n-2 {
				t.Fatalf("order %v: peer %d knows %d of %d slots: %+v", order, i, known, n, x)
			}
		}
	}
}

// TestWhatIsKeptCountsForABase has a base of one slot with many above a hole
// meet one that folded the many and began behind the hole.
func TestWhatIsKeptCountsForABase(t *testing.T) {
	l := drawnRun(t, 10)
	a, b := wide(), wide()
	a.take(l, 1, 3, 4, 5, 6, 7, 8, 9, 10)
	b.Apply(&crdt.Delta{Epoch: l.epoch, Anchor: 3, Slots: l.slots[2:]}, 0)
	a.joinAll(t, b.cutAll(t), 0)
	if c := a.Context(); !c.Knows(1) || len(knows(&c)) != 9 {
		t.Fatalf("slot 1 was given up for slots that were known: %+v", c)
	}
}

// TestARingCountsForABaseBelowIt has a base with two holes given up meet a lower
// one that knows those two and misses one other slot. With what the first one's
// ring keeps the second knows more; only the owner of that ring can count so.
func TestARingCountsForABaseBelowIt(t *testing.T) {
	const n = 60
	l := drawnRun(t, n)
	for _, first := range []int{0, 1} {
		a, b := newPeer(crdt.NewRing(2000), crdt.Limits{}), wide()
		for seq := uint64(1); seq <= n; seq++ {
			if seq != 7 && seq != 8 {
				a.take(l, seq)
			}
			if seq <= 45 && seq != 11 {
				b.take(l, seq)
			}
		}
		a.Declare([]crdt.Span{{From: 7, To: 8}}, 0)
		if kept := a.Slots(l.epoch, []crdt.Span{{From: 1, To: n}}, 1<<20); kept[0].Seq <= 11 || kept[0].Seq > 46 {
			t.Fatalf("the ring is to keep what is above slot 45, not slot 11: %d", kept[0].Seq)
		}
		peers := []*peer{a, b}
		settleAll(t, []*peer{peers[first], peers[1-first]}, 0)
		a.Declare([]crdt.Span{{From: 11, To: 11}}, 0) // nobody has it any more
		settleAll(t, peers, 0)
		checkEqual(t, peers)
		if c := b.Context(); len(knows(&c)) != n-1 {
			t.Fatalf("%d slots of %d are known: %+v", len(knows(&c)), n-1, c)
		}
	}
}

// TestKeptSlotsAreFoldedOnTheBetterBase takes a base that ends below slots which
// are in the ring: they are folded again on top of it.
func TestKeptSlotsAreFoldedOnTheBetterBase(t *testing.T) {
	l := drawnRun(t, 8)
	a, b := wide(), wide()
	a.Apply(&crdt.Delta{Epoch: l.epoch, Anchor: 3, Slots: l.slots[2:]}, 0)
	b.take(l, 1, 2, 3, 4, 5)
	a.joinAll(t, b.cutAll(t), 0)
	if c := a.Context(); c.Anchor != 1 || c.Floor != 8 {
		t.Fatalf("%+v", c)
	}
}

// TestAClearMakesAnchorsEqual holds that who met a process late misses nothing
// of what was before a clear.
func TestAClearMakesAnchorsEqual(t *testing.T) {
	l := drawnRun(t, 6)
	var b crdt.Builder
	b.Clear()
	cleared, err := b.Slot(5, l.slots[4].TS)
	if err != nil {
		t.Fatal(err)
	}
	l.slots[4] = cleared
	early, late := wide(), wide()
	early.take(l, 1, 2, 3, 4, 5, 6)
	late.Apply(&crdt.Delta{Epoch: l.epoch, Anchor: 3, Slots: l.slots[2:]}, 0)
	checkEqual(t, []*peer{early, late})
}

// drawnRun is a log of small batches without a clear.
func drawnRun(t testing.TB, n int) *engineLog {
	l := &engineLog{epoch: 1000}
	for i := range n {
		var b crdt.Builder
		b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{uint64(i + 1)}, []uint64{uint64(i + 7)})
		s, err := b.Slot(uint64(i+1), int64(1000_000+i))
		if err != nil {
			t.Fatal(err)
		}
		l.slots = append(l.slots, s)
	}
	return l
}
