package index

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// late makes an index that never saw the stores of the first two blocks.
func late(t *testing.T, slots ...crdt.Slot) (*Index, *Chain) {
	x := newTestIndex()
	t.Cleanup(x.Close)
	for i, s := range slots {
		x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Slots: slots[i : i+1]}, 1)
		_ = s
	}
	return x, chainOf(x, 6)
}

func looseOf(x *Index) int { return x.Stats().Loose }

func TestAnAnswerLinksOrphansInsideTheCachedPart(t *testing.T) {
	x, c := late(t, chainSlot(t, 2, 3, 4))
	x.Evidence(testStream, c, 4, 0, 10)
	if n := looseOf(x); n != 0 {
		t.Fatalf("%d facts are still loose", n)
	}
	if d := depthOf(x, c); d.Predicted != 4 {
		t.Fatalf("%+v, want 4 blocks expected", d)
	}
	// What is stored below them later continues what the answer told.
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Slots: []crdt.Slot{chainSlot(t, 3, 5, 6)}}, 11)
	if d := depthOf(x, c); d.Predicted != 6 {
		t.Fatalf("%+v, want 6: four told, two confirmed behind them", d)
	}
}

func TestAnAnswerLinksTheOrphansItMade(t *testing.T) {
	x, c := late(t, chainSlot(t, 2, 3, 6))
	x.Evidence(testStream, c, 2, 0, 10) // two were cached, four stored since
	if d := depthOf(x, c); looseOf(x) != 0 || d.Predicted != 6 {
		t.Fatalf("%+v, %d loose", d, looseOf(x))
	}
	// A sibling below the same unseen block is linked at once.
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: 1002}, []uint64{7}, []uint64{77})
	s, err := b.Slot(3, 3)
	if err != nil {
		t.Fatal(err)
	}
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Slots: []crdt.Slot{s}}, 11)
	if looseOf(x) != 0 {
		t.Error("a block below an anchor is loose")
	}
}

func TestAnAnswerLinksNothingDoubtful(t *testing.T) {
	run := func(seq, parent, handle uint64, hashes ...uint64) crdt.Slot {
		var b crdt.Builder
		var handles []uint64
		for i := range hashes {
			handles = append(handles, handle+uint64(i))
		}
		b.Store(crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: parent}, handles, hashes)
		s, err := b.Slot(seq, int64(seq))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, slots := range map[string][]crdt.Slot{
		"two runs fit":                  {run(2, 50, 100, 3, 4), run(3, 60, 200, 3, 4)},
		"the run ends too early":        {run(2, 50, 100, 3)},
		"the run goes elsewhere":        {run(2, 50, 100, 3, 9)},
		"the run begins inside another": {run(2, 50, 100, 8, 3, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			x, c := late(t, slots...)
			before := looseOf(x)
			x.Evidence(testStream, c, 4, 0, 10)
			if n := looseOf(x); n != before || before == 0 {
				t.Errorf("%d of %d facts are loose", n, before)
			}
		})
	}
	t.Run("a likeness inside another run", func(t *testing.T) {
		x, c := late(t, run(2, 50, 100, 3, 4), run(3, 60, 200, 8, 3, 4))
		x.Evidence(testStream, c, 4, 0, 10)
		if n := looseOf(x); n != 3 {
			t.Errorf("%d facts are loose: the head that fits is the only one", n)
		}
	})
	t.Run("text keys", func(t *testing.T) {
		x, c := late(t, run(2, 50, 100, 3, 4))
		c.Exact = false
		if x.Evidence(testStream, c, 4, 0, 10); looseOf(x) != 2 {
			t.Error("keys of text name no token blocks")
		}
	})
}

// TestHintsHealUnequalKeys lets one of two peers with equal facts learn an
// anchor: its hints bring the other's keys in line.
func TestHintsHealUnequalKeys(t *testing.T) {
	slots := []crdt.Slot{chainSlot(t, 2, 3, 4), chainSlot(t, 3, 5, 6)}
	a, c := late(t, slots...)
	b, _ := late(t, slots...)
	a.Evidence(testStream, c, 4, 0, 10)
	da, _ := a.Digest(testStream)
	if db, _ := b.Digest(testStream); da.Base.Facts != db.Base.Facts {
		t.Fatalf("facts differ: %+v %+v", da, db)
	}
	hints := a.Hints(testStream, 1)
	if len(hints) != 1 {
		t.Fatalf("%d hints, want 1", len(hints))
	}
	b.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Hints: hints}, 20)
	if sa, sb := blocksOf(a.streams[testStream]).Sum(), blocksOf(b.streams[testStream]).Sum(); sa != sb || sb.Linked != 4 {
		t.Fatalf("sums differ: %+v %+v", sa, sb)
	}
	d, ok := a.Since(testStream, &crdt.Context{}, 1<<20)
	if !ok || len(d.Hints) != 1 {
		t.Errorf("a delta carries %d hints", len(d.Hints))
	}
	// The block itself is stored: no hint any more.
	a.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Slots: []crdt.Slot{chainSlot(t, 4, 1, 2)}}, 30)
	if n := len(a.Hints(testStream, 1)); n != 0 {
		t.Errorf("%d hints about known blocks", n)
	}
	if d := depthOf(a, c); d.GPU != 6 {
		t.Errorf("%+v after the root came", d)
	}
}

// TestAnchorsWaitForACut learns an anchor while a snapshot is cut: nothing
// moves under the cut, and all is linked after it.
func TestAnchorsWaitForACut(t *testing.T) {
	x, c := late(t, chainSlot(t, 2, 3, 6))
	b := blocksOf(x.streams[testStream])
	b.cutting = true
	x.Evidence(testStream, c, 4, 0, 10)
	if looseOf(x) != 4 || len(b.anchored) != 1 {
		t.Fatalf("%d loose, %d anchors", looseOf(x), len(b.anchored))
	}
	b.cutting = false
	snap := x.Cut(testStream)
	if snap == nil || looseOf(x) != 0 {
		t.Fatalf("%d loose after the cut", looseOf(x))
	}
}

func TestAnchorsAreBounded(t *testing.T) {
	x, _ := late(t, chainSlot(t, 2, 3, 6))
	b := blocksOf(x.streams[testStream])
	for h := range uint64(maxAnchors + 10) {
		b.anchor(1<<32+h, 1)
	}
	if len(b.anchored) != maxAnchors || len(b.came) != maxAnchors || b.came[0] != 1<<32+10 {
		t.Errorf("%d anchors, %d in order", len(b.anchored), len(b.came))
	}
}
