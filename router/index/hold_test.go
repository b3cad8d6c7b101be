package index

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// TestNoHoldIsLong does all the long work there is with many facts and counts
// what is handled while the writer's lock is held (I6).
func TestNoHoldIsLong(t *testing.T) {
	const runs, run = 150, 200
	x, y := newTestIndex(), newTestIndex()
	defer x.Close()
	defer y.Close()
	worst := func(x *Index, what string) {
		t.Helper()
		if x.worst > 2*holdFacts {
			t.Errorf("I6: %s: %d facts in one hold", what, x.worst)
		}
		if x.worst == 0 {
			t.Errorf("%s: nothing was counted", what)
		}
		x.worst = 0
	}
	slots := make([]crdt.Slot, 0, runs)
	for i := range uint64(runs) {
		slots = append(slots, chainSlot(t, i+2+i/100, 2+i*run, 1+(i+1)*run)) // slot 102 is missing
	}
	const facts = runs * run
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: slots}, 1)
	worst(x, "one long delta")
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{chainSlot(t, 1, 1, 1)}}, 2)
	if st := x.Stats(); st.Facts != facts+1 || st.Loose != 0 {
		t.Fatalf("%+v, want %d facts, all linked", st, facts+1)
	}
	worst(x, "a refolded overlay")
	x.Declare(testStream, 1, []crdt.Span{{From: 102, To: 102}}, 3)
	if st := x.Stats(); st.Suspect != 100*run+1 {
		t.Fatalf("%d suspects, want %d", st.Suspect, 100*run+1)
	}
	worst(x, "a loss")
	snap := x.Cut(testStream)
	worst(x, "a cut")
	if err := y.Join(snap, 4); err != nil {
		t.Fatal(err)
	}
	worst(y, "a join")
	if a, b := x.Stats(), y.Stats(); a.Facts != b.Facts || a.Suspect != b.Suspect {
		t.Fatalf("%+v here, %+v there", a, b)
	}
	if len(x.Top(3)) == 0 {
		t.Error("nothing is shared")
	}
	worst(x, "a ranking")
	y.Forget(testStream)
	for y.Maintain(5, 1000) {
	}
	worst(y, "a forgotten stream")
	if n := y.tree.Stats().Facts; n != 0 {
		t.Errorf("%d facts are left", n)
	}
}

// TestManyOrphansAreLinkedInSteps brings the root of many orphans late.
func TestManyOrphansAreLinkedInSteps(t *testing.T) {
	const blocks = 3 * holdFacts
	x := newTestIndex()
	defer x.Close()
	var slots []crdt.Slot
	for i := range uint64(blocks / 64) {
		slots = append(slots, chainSlot(t, i+2, 2+i*64, 1+(i+1)*64))
	}
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Slots: slots}, 1)
	if n := x.Stats().Loose; n != blocks {
		t.Fatalf("%d loose, want %d", n, blocks)
	}
	x.worst = 0
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Slots: []crdt.Slot{chainSlot(t, uint64(len(slots)+2), 1, 1)}}, 2)
	if n := x.Stats().Loose; n != 0 {
		t.Fatalf("%d loose after the root came", n)
	}
	if x.worst > holdFacts+64 {
		t.Errorf("I6: %d facts in one hold", x.worst)
	}
	if d := depthOf(x, chainOf(x, blocks+1)); d.GPU != blocks+1 {
		t.Errorf("%+v", d)
	}
}

// TestManySiblingsAreLinkedInSteps is the same with one parent for all.
func TestManySiblingsAreLinkedInSteps(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	var b crdt.Builder
	for i := range uint64(3 * holdFacts) {
		b.Store(crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: 1001}, []uint64{1 << 20 << 1 * (i + 1)}, []uint64{1 << 30})
	}
	s, err := b.Slot(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Slots: []crdt.Slot{s}}, 1)
	x.worst = 0
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 2, Slots: []crdt.Slot{chainSlot(t, 3, 1, 1)}}, 2)
	if n := x.Stats().Loose; n != 0 || x.worst > holdFacts+64 {
		t.Errorf("I6: %d loose, %d facts in one hold", n, x.worst)
	}
}

// TestPredictionsExpireInSteps books many dispatches and lets them all end
// before the next round.
func TestPredictionsExpireInSteps(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	c := chainOf(x, 64)
	for i := range 100 {
		c.Root, c.Keys = testRoot+1, chainOf(x, 64).Keys
		for j := range c.Keys {
			c.Keys[j] += 1 << 40 * radix.Key(i)
		}
		x.Predict(testStream, c, int64(1000+i))
	}
	before := x.Stats().Predicted
	if before == 0 {
		t.Fatal("nothing is predicted")
	}
	steps := 0
	x.locked(func() { x.guess.next = 1 })
	for more := true; more; steps++ {
		x.locked(func() { more = x.guess.expire(1_000_000_000) })
	}
	if n := x.Stats().Predicted; n != 0 || steps < 100 {
		t.Errorf("%d of %d left after %d steps", n, before, steps)
	}
}

// What a Ref tells of the size of a cache follows the shown facts, however they
// came and went.
func TestARefTellsHowMuchIsHeld(t *testing.T) {
	const run = 50
	x, y := newTestIndex(), newTestIndex()
	defer x.Close()
	defer y.Close()
	at := func(x *Index, want int, when string) {
		t.Helper()
		if got := x.Ref(testStream).Blocks(); got != want {
			t.Errorf("%s: %d blocks, want %d", when, got, want)
		}
	}
	apply := func(epoch uint64, slots ...crdt.Slot) {
		x.Apply(&crdt.Delta{Stream: testStream, Epoch: epoch, Anchor: 1, Slots: slots}, 1)
	}
	at(x, 0, "unknown")
	apply(1, chainSlot(t, 1, 1, run))
	at(x, run, "one run")
	apply(1, chainSlot(t, 2, run+1, 2*run))
	at(x, 2*run, "two runs")
	if err := y.Join(x.Cut(testStream), 2); err != nil {
		t.Fatal(err)
	}
	at(y, 2*run, "a snapshot")
	apply(2, chainSlot(t, 1, 1, 3))
	at(x, 3, "a restart")
	var b crdt.Builder
	b.Remove(crdt.Op{Main: true}, []uint64{1002, 1003})
	b.Store(crdt.Op{Main: true, PerPage: 2, HasParent: true, Parent: 1001}, []uint64{7}, []uint64{70, 71})
	s, err := b.Slot(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	apply(2, s)
	at(x, 4, "pages of two blocks")
	x.Forget(testStream)
	at(x, 0, "forgotten")
	y.Remove(testStream)
	at(y, 0, "removed")
}
