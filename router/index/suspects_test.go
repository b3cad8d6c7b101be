package index

import (
	"fmt"
	"slices"
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

// TestDoubtThatIsOverDoesNotBeginAnew: what comes after the time of a doubt tells
// of no loss that is new.
func TestDoubtThatIsOverDoesNotBeginAnew(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	c := chainOf(x, 4)
	give(x, 1, chainSlot(t, 1, 1, 2))
	give(x, 1, chainSlot(t, 3, 3, 4))
	x.Declare(testStream, 1, []crdt.Span{{From: 2, To: 2}}, 100)
	x.Maintain(100+suspectMs, 100)
	give(x, 101+suspectMs, chainSlot(t, 4, 3, 4))
	if d := depthOf(x, c); d.GPU != 4 || d.Suspect != 0 || x.Stats().Suspect != 0 {
		t.Fatalf("%+v, %d suspects after a slot that came later", d, x.Stats().Suspect)
	}
	give(x, 102+suspectMs, chainSlot(t, 6, 3, 4))
	x.Declare(testStream, 1, []crdt.Span{{From: 5, To: 5}}, 103+suspectMs)
	if d := depthOf(x, c); d.Suspect != 2 {
		t.Fatalf("%+v, want 2 suspect after a new loss", d)
	}
}

// smallMeta is the value of a handle wherever the fact is.
func smallMeta(b *blocks, h uint64) crdt.Meta {
	if i, ok := b.smallPages.present(h); ok {
		return b.smallPages.rec(i).meta
	}
	if l := b.loose[h]; l != nil {
		return l.meta
	}
	f, _ := b.x.tree.Get(b.holder, h)
	return crdt.Meta(f.Meta)
}

// checkSmallSuspects counts suspect pages, and suspect blocks of every prompt,
// the dumb way.
func checkSmallSuspects(t *rapid.T, what string, x *Index, m *smallModel) {
	b := blocksOf(x.streams[testStream])
	if b == nil {
		return
	}
	doubted := func(i int) bool {
		h := m.world[i].handle
		meta := smallMeta(b, h)
		_, sure := b.sure[h]
		return meta.Present() && meta.Seq() < b.void && !sure
	}
	want := 0
	for i := range m.world {
		if slices.IndexFunc(m.world, func(p tok) bool { return p.handle == m.world[i].handle }) == i && doubted(i) {
			want++
		}
	}
	if got := x.Stats().Suspect; got != want {
		t.Fatalf("I7: after %s: %d pages are suspect, counted are %d", what, want, got)
	}
	if marked := x.Ref(testStream).flags.Load()&flagSuspect != 0; marked != (want > 0) {
		t.Fatalf("I7: after %s: marked %v with %d suspects", what, marked, want)
	}
	var v View
	for i := range m.world {
		chain := []int{}
		for j := i; j >= 0; j = m.world[j].parent {
			chain = append(chain, j)
		}
		slices.Reverse(chain)
		x.Match(m.keys(x.hasher, i, 0), &v)
		d := v.Depth(x.Ref(testStream))
		suspect := 0
		for n := range d.GPU {
			if slices.ContainsFunc(chain[n*m.pages:(n+1)*m.pages], doubted) {
				suspect++
			}
		}
		if d.Suspect != suspect {
			t.Fatalf("I7: after %s: page %d: %d of %d blocks are told suspect, want %d", what, i, d.Suspect, d.GPU, suspect)
		}
	}
}

// twoChains is a world of two chains of pages of one token, two blocks each.
func twoChains() (world []tok) {
	for i := range 4 * smallGrid {
		parent := i - 1
		if i%(2*smallGrid) == 0 {
			parent = -1
		}
		world = append(world, tok{handle: uint64(i + 11), tokens: []uint32{uint32(i + 1)}, parent: parent})
	}
	return world
}

// drawRuns draws a batch that stores and removes runs of the two chains.
func drawRuns(t *rapid.T, h *radix.Hasher, seq uint64, world []tok) crdt.Slot {
	var b crdt.Builder
	for range rapid.IntRange(1, 3).Draw(t, "runs") {
		first := rapid.IntRange(0, len(world)-1).Draw(t, "first")
		run := world[first:min(first+rapid.IntRange(1, 2*smallGrid).Draw(t, "pages"), (first/(2*smallGrid)+1)*2*smallGrid)]
		op := crdt.Op{Mode: crdt.Flagged, Main: true}
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			b.Remove(op, []uint64{run[0].handle})
			continue
		}
		if op.HasParent = run[0].parent >= 0; op.HasParent {
			op.Parent = world[run[0].parent].handle
		} else {
			op.Root = uint64(testRoot)
		}
		storeSmallRun(h, &b, op, run)
	}
	s, err := b.Slot(seq, int64(seq))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSuspectsOfSmallPagesAreCounted: of a block that is made of small pages each
// page is a fact of its own, suspect or not; the block is suspect while any page
// of it is.
func TestSuspectsOfSmallPagesAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newSmallIndex(smallGrid)
		defer x.Close()
		m := &smallModel{world: twoChains(), pages: smallGrid}
		for seq := uint64(1); seq <= 10; seq++ {
			if seq%4 == 3 {
				x.Declare(testStream, 5, []crdt.Span{{From: seq, To: seq}}, int64(seq))
				continue
			}
			slot := drawRuns(t, x.hasher, seq, m.world)
			x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: []crdt.Slot{slot}}, int64(seq))
			checkSmallSuspects(t, fmt.Sprintf("slot %d", seq), x, m)
			if rapid.Bool().Draw(t, "answer") {
				keys := m.keys(x.hasher, rapid.IntRange(0, len(m.world)-1).Draw(t, "prompt"), 0)
				x.Evidence(testStream, &Chain{Root: testRoot, Keys: keys, Hashes: make([]radix.TokenHash, len(keys)), Exact: true}, len(keys), len(keys), int64(seq))
				checkSmallSuspects(t, "an answer", x, m)
			}
		}
	})
}
