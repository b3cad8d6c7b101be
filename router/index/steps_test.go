package index

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// begin joins slots in one hold and leaves what is over it to do.
func begin(x *Index, slots ...crdt.Slot) {
	x.locked(func() {
		s := x.streamLocked(testStream)
		s.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots}, 1000)
		x.after(s)
	})
}

// goOn does one hold of what is left and reports whether there was any.
func goOn(x *Index) (more bool) {
	x.locked(func() {
		s := x.streams[testStream]
		if b := blocksOf(s); b != nil && b.unfinished(s) {
			more = true
			x.step(s, b)
		}
	})
	return more
}

// TestAFoldMayStopAnywhere leaves folds in part and goes in by other doors: all
// of them find the stream as if it had been folded whole.
func TestAFoldMayStopAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spaces := rapid.Bool().Draw(t, "spaces")
		slots, order, world := drawHistory(t, spaces)
		x := newTestIndex()
		defer x.Close()
		x.hold = rapid.IntRange(1, 6).Draw(t, "hold")
		stream, shown := newModel()
		for _, i := range order {
			begin(x, slots[i])
			stream.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}, 1000)
			for range rapid.IntRange(0, 3).Draw(t, "go on") {
				goOn(x)
			}
			want := stream.Digest()
			switch rapid.IntRange(0, 6).Draw(t, "door") {
			case 0:
				if got, _ := x.Digest(testStream); agreed(got) != agreed(want) || !got.Context.Equal(&want.Context) {
					t.Fatalf("digest %+v, want %+v", got, want)
				}
			case 1:
				snap := x.Cut(testStream)
				if !snap.Context.Equal(&want.Context) || snap.Base.Facts != want.Base.Facts || snap.Base.Count != want.Base.Count {
					t.Fatalf("snapshot of %+v %+v, want %+v", snap.Context, snap.Base, want)
				}
			case 2:
				if p, _ := x.Prior(testStream); p.Floor != want.Context.Floor {
					t.Fatalf("prior %+v, want %+v", p, want)
				}
			case 3:
				c := crdt.Context{Epoch: 5, Anchor: 1}
				a, ok1 := x.Since(testStream, &c, 1<<20)
				b, ok2 := stream.Since(&c, 1<<20)
				if ok1 != ok2 || len(a.Slots) != len(b.Slots) {
					t.Fatalf("%d slots since the beginning, want %d", len(a.Slots), len(b.Slots))
				}
			case 4: // the next slot is that door
				continue
			default:
				for goOn(x) {
				}
			}
			if s, w := x.streams[testStream].Blocks().Sum(), shown().Sum(); s.Count != w.Count || s.Facts != w.Facts {
				t.Fatalf("I4: after slot %d: %d facts %x, model has %d facts %x", i+1, s.Count, s.Facts, w.Count, w.Facts)
			}
			for goOn(x) { // orphans too
			}
			checkSum(t, x.streams[testStream].Blocks().(*blocks), world, spaces)
		}
	})
}

// TestStepsLinkWhatTheWholeFoldLinks compares all that readers see.
func TestStepsLinkWhatTheWholeFoldLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, order, world := drawHistory(t, rapid.Bool().Draw(t, "spaces"))
		x, y := newTestIndex(), newTestIndex()
		defer x.Close()
		defer y.Close()
		x.hold = rapid.IntRange(1, 6).Draw(t, "hold")
		for _, i := range order {
			d := crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}
			a, b := x.Apply(&d, 1000), y.Apply(&d, 1000)
			if a.NewSlots != b.NewSlots || a.Floor != b.Floor || len(a.Holes) != len(b.Holes) {
				t.Fatalf("%+v in steps, %+v whole", a, b)
			}
			p, q := x.streams[testStream].Blocks().Sum(), y.streams[testStream].Blocks().Sum()
			if p != q {
				t.Fatalf("%+v in steps, %+v whole", p, q)
			}
			sameDepths(t, x, y, world)
		}
	})
}

// TestASaltedRunHangsBelowNoNamesake: SGLang leaves the salt out of its hash, so
// the handle of a parent that is not known under a salt may be known without one.
// What hangs below it under the salt is no block of prompts without.
func TestASaltedRunHangsBelowNoNamesake(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	plain := chainSlot(t, 1, 1, 1)
	give(x, 1, plain)
	var op crdt.Op
	plain.First(&op)
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 1, Space: 9, HasParent: true, Parent: op.Handles.At(0)}, []uint64{1001}, []uint64{1})
	s, err := b.Slot(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	give(x, 2, s)
	if n := x.Stats().Loose; n != 1 {
		t.Errorf("%d loose, want the salted block: its parent under the salt is not known", n)
	}
}

// TestARunInASpaceGoesOnInIt cuts a run whose blocks have namesakes without a
// space: what is cut hangs below its own blocks.
func TestARunInASpaceGoesOnInIt(t *testing.T) {
	for _, hold := range []int{1, foldFacts} {
		x := newTestIndex()
		defer x.Close()
		x.hold = hold
		give(x, 1, chainSlot(t, 1, 1, 5))
		var b crdt.Builder
		b.Store(crdt.Op{Main: true, PerPage: 1, Space: 9, HasParent: true, Parent: 77}, []uint64{1001, 1002, 1003, 1004}, []uint64{1, 2, 3, 4})
		s, err := b.Slot(2, 2)
		if err != nil {
			t.Fatal(err)
		}
		give(x, 2, s)
		if n := x.Stats().Loose; n != 4 {
			t.Errorf("hold %d: %d loose, want 4: their root is not known", hold, n)
		}
	}
}

// TestReadersSeeOnlyWhatAFoldChanges looks between the steps of long folds:
// what no slot names stays as it is, what one stores only grows and what one
// removes only shrinks.
func TestReadersSeeOnlyWhatAFoldChanges(t *testing.T) {
	const long, still = 5 * foldFacts, 40
	x := newTestIndex()
	defer x.Close()
	other := func(seq uint64) crdt.Slot { // a chain that nothing touches
		var b crdt.Builder
		words := make([]uint64, still)
		for i := range words {
			words[i] = 1<<50 + uint64(i)
		}
		b.Store(crdt.Op{Main: true, PerPage: 1, Root: uint64(testRoot)}, words, words)
		s, err := b.Slot(seq, int64(seq))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var stillKeys []radix.Key
	k := testRoot
	for i := range still {
		k = x.hasher.Chain(k, radix.TokenHash(1<<50+uint64(i)))
		stillKeys = append(stillKeys, k)
	}
	chain := chainOf(x, long)
	look := func() int {
		t.Helper()
		if d := depthOf(x, &Chain{Root: testRoot, Exact: true, Keys: stillKeys}); d.GPU != still {
			t.Fatalf("%+v of a chain that nothing touches", d)
		}
		return depthOf(x, chain).GPU
	}
	begin(x, other(1))
	begin(x, chainSlot(t, 2, 1, long))
	steps, last := 0, look()
	for ; goOn(x); steps++ {
		now := look()
		if now < last {
			t.Fatalf("%d blocks after %d", now, last)
		}
		last = now
	}
	if last != long || steps < 4 {
		t.Fatalf("%d of %d blocks after %d steps", last, long, steps)
	}
	var b crdt.Builder
	handles := make([]uint64, long)
	for i := range handles {
		handles[i] = uint64(1000 + long - i)
	}
	b.Remove(crdt.Op{Main: true}, handles)
	gone, err := b.Slot(3, 3)
	if err != nil {
		t.Fatal(err)
	}
	begin(x, gone)
	for steps = 0; goOn(x); steps++ {
		now := look()
		if now > last {
			t.Fatalf("%d blocks after %d", now, last)
		}
		last = now
	}
	if last != 0 || steps < 4 {
		t.Fatalf("%d blocks left after %d steps", last, steps)
	}
}

// TestNoFoldIsLong counts what is done in one hold for the longest slot there
// may be and for a long overlay that is undone and folded again (I6).
func TestNoFoldIsLong(t *testing.T) {
	bytes, slots := crdt.MaxSlotBytes, 1250
	if testing.Short() {
		bytes, slots = bytes/16, slots/4
	}
	x := newTestIndex()
	defer x.Close()
	check := func(what string, facts int) {
		t.Helper()
		if x.worst > foldFacts+64 || x.worst == 0 {
			t.Errorf("I6: %s: %d facts in one hold", what, x.worst)
		}
		x.worst = 0
		if n := x.Stats().Facts; n != facts {
			t.Errorf("%s: %d facts, want %d", what, n, facts)
		}
		x.worst = 0
	}
	blocks := (bytes - 64) / 16
	give(x, 1, runSlot(t, 1, 0, blocks/2))
	check("half of the longest slot", blocks/2)
	begin(x, runSlot(t, 1, 0, blocks)) // of another epoch
	if d, ok := x.Digest(testStream); !ok || d.Base.Count != uint64(blocks) {
		t.Errorf("%+v in the midst of a fold", d)
	}
	x.worst = max(x.worst, x.held)
	check("the longest slot, to its end by who asked for a digest", blocks)
	var b crdt.Builder
	b.Clear()
	cleared, err := b.Slot(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	take := func(slot crdt.Slot) {
		x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: []crdt.Slot{slot}}, 2)
	}
	take(cleared)
	for i := range slots {
		take(runSlot(t, 5+i, 16*i, 16)) // 3 and 4 are missing
	}
	check("an overlay", 16*slots)
	take(runSlot(t, 4, 16*slots, 16))
	check("the same over one slot more", 16*(slots+1))
	x.Declare(testStream, 5, []crdt.Span{{From: 3, To: 3}}, 5)
	for goOn(x) {
	}
	if c := x.streams[testStream].Context(); c.Floor != uint64(4+slots) || len(c.Above) > 0 {
		t.Errorf("%+v after the loss", c)
	}
}
