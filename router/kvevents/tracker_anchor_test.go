package kvevents

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// Two owners met one incarnation at different slots and their epochs became
// one: holes between the two anchors are settled by whoever is asked, though
// its own connection began above them.
func TestTrackerSettlesHolesBelowItsOwnAnchor(t *testing.T) {
	tr := NewTracker(false)
	live := func(seq uint64, prior Prior) Output {
		return tr.Step(1000, prior, Live{Slot: crdt.Slot{Seq: seq, TS: int64(seq) * 1_000_000}})
	}
	epoch := live(9, Prior{}).Epoch
	live(10, Prior{})
	mesh := Prior{Epoch: epoch, Anchor: 3, Floor: 5, LastSeq: 10, LastTS: 10_000_000}
	out := tr.Step(2000, mesh, Wanted{Spans: []crdt.Span{{From: 6, To: 6}, {From: 8, To: 8}}})
	if want := []crdt.Span{{From: 6, To: 6}, {From: 8, To: 8}}; !slices.Equal(out.Exhausted, want) {
		t.Errorf("exhausted %v, want %v", out.Exhausted, want)
	}
	if out.Epoch != epoch || out.Anchor != 3 {
		t.Errorf("epoch %d anchor %d, want the mesh's %d and 3", out.Epoch, out.Anchor, epoch)
	}
}

// A hold ends in the step in which the mesh turns out to know the incarnation
// by a later anchor: what was held from before that is not of it.
func TestHeldSlotsBelowTheMeshsAnchorAreDropped(t *testing.T) {
	tr := NewTracker(true)
	prior := Prior{Epoch: 1, Anchor: 1, LastSeq: 1}
	tr.Step(1, prior, Live{crdt.Slot{Seq: 1}})
	tr.Step(2, prior, Live{crdt.Slot{Seq: 2, TS: 2000}})
	out := tr.Step(2+holdMs, Prior{Epoch: 2, Anchor: 2, LastSeq: 2}, Tick{})
	if out.Epoch != 2 || out.Anchor != 2 || len(out.Deliver) != 1 || out.Deliver[0].Seq != 2 || tr.Stats().Stale != 1 {
		t.Errorf("%+v, %+v", out, tr.Stats())
	}
}
