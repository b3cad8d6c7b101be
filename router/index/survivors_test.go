package index

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// TestASnapshotTellsItsLastSlot: who takes a stream over after a cold join knows
// the engine's time of the last slot, without which it cannot tell a restart.
func TestASnapshotTellsItsLastSlot(t *testing.T) {
	from, to := newTestIndex(), newTestIndex()
	t.Cleanup(from.Close)
	t.Cleanup(to.Close)
	for seq := uint64(1); seq <= 3; seq++ {
		give(from, 1000, chainSlot(t, seq, 1, 2))
	}
	if err := to.Join(from.Cut(testStream), 1000); err != nil {
		t.Fatal(err)
	}
	want, _ := from.Prior(testStream)
	if got, ok := to.Prior(testStream); !ok || got.Last != 3 || got.LastTS == 0 || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// storeOne is a run of one block below a parent, or the root.
func storeOne(b *crdt.Builder, handle, parent, hash uint64) {
	op := crdt.Op{Main: true, PerPage: 1, HasParent: parent != 0, Parent: parent}
	if parent == 0 {
		op.Root = uint64(testRoot)
	}
	b.Store(op, []uint64{handle}, []uint64{hash})
}

// TestTheUndoLogKeepsTokensOfItsOwn: a loose fact is told anew above a hole with
// other tokens, and what hangs below it is linked by the old ones when the hole
// is filled, as if everything had come in order.
func TestTheUndoLogKeepsTokensOfItsOwn(t *testing.T) {
	var b crdt.Builder
	slot := func(seq uint64) crdt.Slot {
		s, err := b.Slot(seq, int64(seq))
		if err != nil {
			t.Fatal(err)
		}
		b.Reset()
		return s
	}
	storeOne(&b, 200, 77, 5)
	storeOne(&b, 300, 200, 6)
	first := slot(1)
	storeOne(&b, 77, 0, 1)
	second := slot(2)
	storeOne(&b, 200, 77, 9)
	third := slot(3)
	x, y := newTestIndex(), newTestIndex()
	t.Cleanup(x.Close)
	t.Cleanup(y.Close)
	for _, s := range []crdt.Slot{first, second, third} {
		give(x, 1000, s)
	}
	for _, s := range []crdt.Slot{first, third, second} {
		give(y, 1000, s)
	}
	p, _ := x.Digest(testStream)
	q, _ := y.Digest(testStream)
	if p.Base != q.Base || p.Base.Linked != 3 {
		t.Errorf("in order %+v, with a hole %+v", p.Base, q.Base)
	}
}

// TestASpacesEntriesAreForgotten with the facts they stand for.
func TestASpacesEntriesAreForgotten(t *testing.T) {
	x := newTestIndex()
	t.Cleanup(x.Close)
	var b crdt.Builder
	for i := uint64(1); i <= 100; i++ {
		b.Store(crdt.Op{Main: true, PerPage: 1, Space: 9, Root: uint64(testRoot)}, []uint64{i}, []uint64{i})
		b.Remove(crdt.Op{Main: true, Space: 9}, []uint64{i})
	}
	s, err := b.Slot(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	give(x, 1000, s)
	store := x.streams[testStream].Blocks().(*blocks)
	if len(store.spaced) > 0 || len(store.spaces) > 0 {
		t.Errorf("%d entries and %d handles of no fact are remembered", len(store.spaced), len(store.spaces))
	}
}

// TestWhatALongDeltaHoldsIsNotLost: a slot that it also declares lost comes in a
// later part of it.
func TestWhatALongDeltaHoldsIsNotLost(t *testing.T) {
	x := newTestIndex()
	t.Cleanup(x.Close)
	d := crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Lost: []crdt.Span{{From: 2, To: 2}}}
	for seq := uint64(1); seq <= 2; seq++ {
		var b crdt.Builder
		b.Store(crdt.Op{Group: 1}, make([]uint64, holdBytes/8), nil)
		s, err := b.Slot(seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		d.Slots = append(d.Slots, s)
	}
	x.Apply(&d, 1000)
	if got, _ := x.Digest(testStream); got.Context.Floor != 2 || len(got.Context.Voids) > 0 {
		t.Errorf("%+v", got.Context)
	}
}

// TestTheDigestOfABaseTellsNothingAboveIt: keys that a peer linked above a hole
// are none of its base's, or two peers whose floors are equal would find their
// keys unequal though nothing is.
func TestTheDigestOfABaseTellsNothingAboveIt(t *testing.T) {
	x, y := newTestIndex(), newTestIndex()
	t.Cleanup(x.Close)
	t.Cleanup(y.Close)
	give(x, 1000, chainSlot(t, 1, 1, 2))
	give(y, 1000, chainSlot(t, 1, 1, 2), chainSlot(t, 3, 3, 4))
	p, _ := x.Digest(testStream)
	q, _ := y.Digest(testStream)
	if p.Context.Floor != q.Context.Floor || p.Base != q.Base || p.Base.Linked != 2 {
		t.Errorf("without a hole %+v, below one %+v", p, q)
	}
}

// TestALongDeltaOpensAnEpochOnce, in its first part, and says so.
func TestALongDeltaOpensAnEpochOnce(t *testing.T) {
	x := newTestIndex()
	t.Cleanup(x.Close)
	d := crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1}
	for seq := uint64(1); seq <= 2; seq++ {
		var b crdt.Builder
		b.Store(crdt.Op{Group: 1}, make([]uint64, holdBytes/8), nil)
		s, err := b.Slot(seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		d.Slots = append(d.Slots, s)
	}
	if out := x.Apply(&d, 1000); !out.NewEpoch || out.NewSlots != 2 {
		t.Errorf("%+v", out)
	}
	if out := x.Apply(&d, 1000); out.NewEpoch || out.NewSlots != 0 {
		t.Errorf("again: %+v", out)
	}
}

// TestALongDeltaEndsWithAnOverflow: the part with too many holes makes the stream
// be forgotten. The caller hears of it, and the parts behind begin no other one.
func TestALongDeltaEndsWithAnOverflow(t *testing.T) {
	x := newTestIndex()
	t.Cleanup(x.Close)
	d := crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1}
	for i := range uint64(crdt.MaxHoles + 10) {
		d.Slots = append(d.Slots, chainSlot(t, 3+2*i, i+1, i+1))
	}
	var b crdt.Builder
	b.Store(crdt.Op{Group: 1}, make([]uint64, holdBytes/8), nil)
	long, err := b.Slot(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	d.Slots = append(d.Slots, long)
	out := x.Apply(&d, 1000)
	if got, _ := x.Digest(testStream); !out.Overflow || got.Context.Floor != 0 || len(got.Context.Above) > 0 {
		t.Errorf("%+v, known is %+v", out, got.Context)
	}
}
