package index

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// bruteSuspects counts suspect facts the dumb way.
func bruteSuspects(b *blocks, world []page, spaces bool) (n int) {
	seen := map[uint64]bool{}
	for _, p := range world {
		for space := range uint64(3) {
			h := b.effective(p.handle, space)
			if space > 0 && !spaces || seen[h] {
				continue
			}
			seen[h] = true
			m := crdt.Meta(0)
			if f, ok := b.x.tree.Get(b.holder, h); ok {
				m = crdt.Meta(f.Meta)
			} else if l := b.loose[h]; l != nil {
				m = l.meta
			}
			if _, sure := b.sure[h]; m.Present() && m.Seq() < b.void && !sure {
				n++
			}
		}
	}
	return n
}

func TestSuspectsAreFactsOlderThanTheLastLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spaces := rapid.Bool().Draw(t, "spaces")
		slots, order, world := drawHistory(t, spaces)
		lost := rapid.SliceOfNDistinct(rapid.IntRange(1, len(slots)), 0, 3, rapid.ID).Draw(t, "lost")
		x := newTestIndex()
		defer x.Close()
		check := func(what string) {
			s := x.streams[testStream]
			b := blocksOf(s)
			if b == nil {
				return
			}
			want := bruteSuspects(b, world, spaces)
			if b.void != s.MaxVoid() || b.suspects != want || x.Stats().Suspect != want {
				t.Fatalf("I7: after %s: %d suspects below %d, want %d below %d", what, b.suspects, b.void, want, s.MaxVoid())
			}
			if marked := x.Ref(testStream).flags.Load()&flagSuspect != 0; marked != (want > 0) {
				t.Fatalf("I7: after %s: marked %v with %d suspects", what, marked, want)
			}
		}
		for i, at := range order {
			if len(lost) > 0 && rapid.IntRange(0, 3).Draw(t, "declare") == 0 {
				x.Declare(testStream, 5, []crdt.Span{{From: uint64(lost[0]), To: uint64(lost[0])}}, int64(i+1))
				lost = lost[1:]
				check("a loss")
			}
			x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[at : at+1]}, int64(i+1))
			check("a slot")
			if rapid.IntRange(0, 3).Draw(t, "answer") == 0 {
				keys := keysOf(x.hasher, world, rapid.IntRange(0, len(world)-1).Draw(t, "prompt"))
				x.Evidence(testStream, &Chain{Root: testRoot, Keys: keys, Exact: true}, rapid.IntRange(0, len(keys)).Draw(t, "cached"), 0, int64(i+1))
				check("an answer")
			}
		}
		b := newTestIndex()
		defer b.Close()
		if snap := x.Cut(testStream); snap != nil {
			if err := b.Join(snap, 99); err != nil {
				t.Fatal(err)
			}
			x = b
			check("a snapshot")
		}
		x.Maintain(99+suspectMs, 100)
		if s := x.Stats(); s.Suspect != 0 || x.Ref(testStream).flags.Load()&flagSuspect != 0 {
			t.Fatalf("%d suspects after their time", s.Suspect)
		}
	})
}

// chainSlot stores a run of blocks hashed from..to of one chain; handles are
// hash + 1000.
func chainSlot(t *testing.T, seq, from, to uint64) crdt.Slot {
	t.Helper()
	var b crdt.Builder
	op := crdt.Op{Main: true, PerPage: 1, Root: uint64(testRoot), HasParent: from > 1, Parent: from + 999}
	var handles, hashes []uint64
	for h := from; h <= to; h++ {
		handles, hashes = append(handles, h+1000), append(hashes, h)
	}
	b.Store(op, handles, hashes)
	s, err := b.Slot(seq, int64(seq))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// chainOf is the prompt of hashes 1..n.
func chainOf(x *Index, n int) *Chain {
	c := &Chain{Root: testRoot, Exact: true}
	k := testRoot
	for h := range n {
		t := radix.TokenHash(h + 1)
		k = x.hasher.Chain(k, t)
		c.Keys, c.Hashes = append(c.Keys, k), append(c.Hashes, t)
	}
	return c
}

func give(x *Index, nowMs int64, slots ...crdt.Slot) crdt.Outcome {
	return x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: slots}, nowMs)
}

func depthOf(x *Index, c *Chain) Depth {
	var v View
	x.Match(c.Keys, &v)
	return v.Depth(x.Ref(testStream))
}

func TestSuspectBlocksAreToldByMatch(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	c := chainOf(x, 10)
	give(x, 1, chainSlot(t, 1, 1, 8))
	give(x, 1, chainSlot(t, 3, 9, 10))
	if d := depthOf(x, c); d != (Depth{GPU: 10, CPU: 10, Any: 10}) {
		t.Fatalf("a hole makes nothing suspect: %+v", d)
	}
	x.Declare(testStream, 1, []crdt.Span{{From: 2, To: 2}}, 100)
	if d := depthOf(x, c); d.GPU != 10 || d.Suspect != 8 {
		t.Fatalf("%+v, want 8 suspect of 10", d)
	}
	give(x, 101, chainSlot(t, 4, 1, 2)) // stored again
	if d := depthOf(x, c); d.Suspect != 6 {
		t.Fatalf("%+v, want 6 suspect", d)
	}
	x.Evidence(testStream, c, 5, 10, 99) // dispatched before the loss
	if d := depthOf(x, c); d.Suspect != 6 {
		t.Fatalf("%+v: an answer from before the loss proves nothing", d)
	}
	x.Evidence(testStream, c, 5, 10, 102)
	if d := depthOf(x, c); d.Suspect != 3 || x.Stats().Suspect != 3 {
		t.Fatalf("%+v, want 3 suspect after an answer", d)
	}
	x.Maintain(100+suspectMs-1, 100)
	if d := depthOf(x, c); d.Suspect != 3 {
		t.Fatalf("%+v: too early", d)
	}
	x.Maintain(100+suspectMs, 100)
	if d := depthOf(x, c); d.Suspect != 0 || d.GPU != 10 {
		t.Fatalf("%+v after ten minutes", d)
	}
}
