package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// ask lets b ask a for the keys of facts that have none there, and reports how
// many that linked.
func ask(a, b *Index, epoch uint64) int {
	handles := b.Unlinked(testStream, epoch)
	return b.Link(testStream, epoch, a.Keys(testStream, epoch, handles), 1000)
}

// storedBlock is a slot that stores one block, below a parent or at the root.
func storedBlock(t testing.TB, seq, parent, handle, hash uint64) crdt.Slot {
	var b crdt.Builder
	op := crdt.Op{Main: true, PerPage: 1, HasParent: parent != 0, Parent: parent, Root: uint64(testRoot)}
	if op.HasParent {
		op.Root = 0
	}
	b.Store(op, []uint64{handle}, []uint64{hash})
	s, err := b.Slot(seq, int64(seq))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func removedBlock(t testing.TB, seq, handle uint64) crdt.Slot {
	var b crdt.Builder
	b.Remove(crdt.Op{Main: true}, []uint64{handle})
	s, err := b.Slot(seq, int64(seq))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func applied(slots ...crdt.Slot) *Index {
	x := newTestIndex()
	for i := range slots {
		x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}, 1000)
	}
	return x
}

// Two peers with equal facts, of which one heard of the grandparent's end
// after the parent's store: it linked the child, and knows neither ancestor's
// key now. The other learns the child's key all the same, and both are equal.
func TestKeysOfLinkedBlocksOutliveTheirParents(t *testing.T) {
	slots := []crdt.Slot{
		storedBlock(t, 1, 2, 3, 33), // a child of 2, which nobody knows yet
		storedBlock(t, 2, 0, 1, 11),
		removedBlock(t, 3, 1),
		storedBlock(t, 4, 1, 2, 22),
	}
	more, less := applied(slots[0], slots[1], slots[3], slots[2]), applied(slots...)
	defer more.Close()
	defer less.Close()
	a, _ := more.Digest(testStream)
	b, _ := less.Digest(testStream)
	if a.Base.Facts != b.Base.Facts || a.Base.Linked != 1 || b.Base.Linked != 0 || len(more.Hints(testStream, 5)) != 0 {
		t.Fatalf("the scene is another: %+v %+v", a.Base, b.Base)
	}
	if n := ask(less, more, 5); n != 0 {
		t.Errorf("%d linked by who knows less", n)
	}
	if n := ask(more, less, 5); n != 1 {
		t.Errorf("%d linked", n)
	}
	if b, _ = less.Digest(testStream); b.Base != a.Base {
		t.Errorf("%+v, want %+v", b.Base, a.Base)
	}
}

// TestEqualFactsGetEqualKeys: peers that folded one log in different orders
// have equal facts, and after asking each other equal keys.
func TestEqualFactsGetEqualKeys(t *testing.T) {
	unequal := 0
	rapid.Check(t, func(t *rapid.T) {
		spaces := rapid.Bool().Draw(t, "spaces")
		slots, _, world := drawHistory(t, spaces)
		var peers []*Index
		for range rapid.IntRange(2, 3).Draw(t, "peers") {
			x := newTestIndex()
			defer x.Close()
			peers = append(peers, x)
			for _, i := range rapid.Permutation(seqTo(len(slots))).Draw(t, "order") {
				d := crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}
				if rapid.IntRange(0, 1).Draw(t, "answer") == 0 { // told the key of a block, whoever holds it
					at := rapid.IntRange(0, len(world)-1).Draw(t, "block")
					keys := keysOf(x.hasher, world, at)
					d.Hints = []crdt.Hint{{Handle: world[at].handle, Key: uint64(keys[len(keys)-1])}}
				}
				x.Apply(&d, 1000)
			}
		}
		before, _ := peers[0].Digest(testStream)
		for _, x := range peers[1:] {
			d, _ := x.Digest(testStream)
			if d.Base.Count != before.Base.Count || d.Base.Facts != before.Base.Facts {
				t.Fatalf("facts differ: %+v %+v", before, d)
			}
			if d.Base != before.Base {
				unequal++
			}
		}
		for news := 1; news > 0; {
			news = 0
			for i, x := range peers {
				y := peers[(i+1)%len(peers)]
				n := ask(x, y, 5)
				news += n + ask(y, x, 5)
			}
		}
		want, _ := peers[0].Digest(testStream)
		if want.Base.Facts != before.Base.Facts || want.Base.Linked < before.Base.Linked {
			t.Fatalf("keys changed facts, or took links: %+v, before %+v", want.Base, before.Base)
		}
		for _, x := range peers {
			if d, _ := x.Digest(testStream); d.Base != want.Base {
				t.Fatalf("keys differ: %+v %+v", want.Base, d.Base)
			}
			checkSum(t, blocksOf(x.streams[testStream]), world, spaces)
		}
	})
	t.Logf("%d pairs differed before", unequal)
}

// TestToldKeysAreChecked: what was derived stays, and what contradicts a
// fact's tokens, or the key known of its parent, is refused.
func TestToldKeysAreChecked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, order, _ := drawHistory(t, false)
		x := newTestIndex()
		defer x.Close()
		for _, i := range order {
			x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}, 1000)
		}
		b := blocksOf(x.streams[testStream])
		var handles []uint64
		for i := range slots {
			_ = slots[i].Ops(func(op *crdt.Op) bool {
				for j := range op.Handles.Len() {
					handles = append(handles, op.Handles.At(j))
				}
				return true
			})
		}
		if len(handles) == 0 {
			return
		}
		facts, keys := b.sum, map[uint64]uint64{}
		tokens := map[uint64]bool{}
		for _, h := range handles {
			if k, ok := b.keyOf(h); ok {
				keys[h] = uint64(k)
			}
			tokens[h] = b.loose[h] != nil && len(b.loose[h].hashes) > 0
		}
		var told []crdt.Keyed
		for range rapid.IntRange(1, 8).Draw(t, "told") {
			told = append(told, crdt.Keyed{
				Handle: rapid.SampledFrom(handles).Draw(t, "handle"), Parent: rapid.Uint64Range(1, 1<<60).Draw(t, "parent"),
				Keys: rapid.SliceOfN(rapid.Uint64Range(1, 1<<60), 0, 3).Draw(t, "keys"),
			})
		}
		x.Link(testStream, 5, told, 1000)
		if b.sum.Count != facts.Count || b.sum.Facts != facts.Facts {
			t.Fatalf("I8: the facts are %+v, before %+v", b.sum, facts)
		}
		for h, k := range keys {
			if now, ok := b.keyOf(h); !ok || uint64(now) != k {
				t.Fatalf("the key of %x was %x and is %x", h, k, now)
			}
		}
		for _, k := range told {
			if tokens[k.Handle] && !slices.ContainsFunc(told, func(o crdt.Keyed) bool { return !tokens[o.Handle] }) && b.loose[k.Handle] == nil {
				t.Fatalf("%x has a key that its tokens contradict", k.Handle)
			}
		}
	})
}

// TestAToldKeyBelowAnotherParentIsRefused: an answer told the key of block 2, which
// became a fact below a parent that nobody knows; block 3 hangs below it. Keys of
// block 3 below any other parent contradict that.
func TestAToldKeyBelowAnotherParentIsRefused(t *testing.T) {
	const known, other = radix.Key(4711), radix.Key(4712)
	x := applied(storedBlock(t, 1, 0, 9, 99))
	defer x.Close()
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Hints: []crdt.Hint{{Handle: 2, Key: uint64(known)}}}, 1000)
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: 1}, []uint64{2, 3}, []uint64{22, 33})
	s, err := b.Slot(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: []crdt.Slot{s}}, 1000)
	if n := x.Stats().Loose; n != 2 {
		t.Fatalf("the scene is another: %d loose", n)
	}
	below := func(parent radix.Key) []crdt.Keyed {
		return []crdt.Keyed{{Handle: 3, Parent: uint64(parent), Keys: []uint64{uint64(x.hasher.Chain(parent, 33))}}}
	}
	if n := x.Link(testStream, 5, below(other), 1000); n != 0 || x.Stats().Loose != 2 {
		t.Errorf("%d linked below a key that is not the parent's, %d loose", n, x.Stats().Loose)
	}
	if n := x.Link(testStream, 5, below(known), 1000); n != 1 || x.Stats().Loose != 1 {
		t.Errorf("%d linked below the parent's key, %d loose", n, x.Stats().Loose)
	}
}

// Questions go on where the last one ended, so that a fact nobody can tell of
// does not hide another.
func TestAllUnlinkedFactsAreAskedFor(t *testing.T) {
	const blocks = 2*maxAsked + 100
	slots := make([]crdt.Slot, 0, blocks)
	for i := range uint64(blocks) {
		slots = append(slots, storedBlock(t, i+1, 1<<32+i, 1+i, i))
	}
	x := applied(slots...)
	defer x.Close()
	seen := map[uint64]bool{}
	for range 3 {
		handles := x.Unlinked(testStream, 5)
		if len(handles) > maxAsked {
			t.Fatalf("%d facts at once", len(handles))
		}
		for _, h := range handles {
			seen[h] = true
		}
	}
	if len(seen) != blocks || x.Unlinked(testStream, 4) != nil || x.Unlinked("other", 5) != nil {
		t.Errorf("%d of %d facts were named", len(seen), blocks)
	}
}
