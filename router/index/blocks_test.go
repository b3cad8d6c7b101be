package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
	"github.com/banyan-llm/banyan/radix"
)

const testStream = crdt.StreamID("http://r0#0")

func newTestIndex() *Index {
	return New(Config{Hasher: radix.NewHasher([]byte("test secret 0123")), RingBytes: 1 << 20})
}

// page is one block of the drawn world: a position in a tree of chains. Its
// handle names the whole prefix, as engines' hashes do.
type page struct {
	handle, hash uint64
	parent       int // page index, -1 root
}

// world is a small forest of chains to draw stores and removals from.
func drawWorld(t *rapid.T) []page {
	n := rapid.IntRange(1, 24).Draw(t, "pages")
	pages := make([]page, n)
	for i := range pages {
		parent := rapid.IntRange(-1, i-1).Draw(t, "parent")
		hash := uint64(rapid.IntRange(1, 3).Draw(t, "hash"))
		up := uint64(7)
		if parent >= 0 {
			up = pages[parent].handle
		}
		pages[i] = page{handle: crdt.FactHash(up, 99, crdt.Meta(hash)) | 1, hash: hash, parent: parent}
	}
	return pages
}

const testRoot = radix.Key(0xabc)

// drawSlot draws one engine batch over the world.
func drawSlot(t *rapid.T, seq uint64, world []page, spaces bool) crdt.Slot {
	var b crdt.Builder
	mode := crdt.Mode(rapid.IntRange(0, 1).Draw(t, "mode"))
	for range rapid.IntRange(0, 4).Draw(t, "ops") {
		op := crdt.Op{Mode: mode, Tier: crdt.Tier(rapid.IntRange(0, 2).Draw(t, "tier")), Main: rapid.IntRange(0, 9).Draw(t, "main") > 0}
		if spaces {
			op.Space = uint64(rapid.IntRange(0, 2).Draw(t, "space"))
		}
		i := rapid.IntRange(0, len(world)-1).Draw(t, "page")
		switch kind := rapid.IntRange(0, 19).Draw(t, "kind"); {
		case kind == 0:
			b.Clear()
		case kind < 8:
			op.AnySpace = spaces && rapid.Bool().Draw(t, "any")
			handles := []uint64{world[i].handle}
			for rapid.Bool().Draw(t, "another") {
				handles = append(handles, world[rapid.IntRange(0, len(world)-1).Draw(t, "page")].handle)
			}
			b.Remove(op, handles)
		case kind == 8:
			b.Store(op, []uint64{world[i].handle}, nil) // bare: one more tier
		default:
			op.PerPage = 1
			if p := world[i].parent; p >= 0 {
				op.HasParent, op.Parent = true, world[p].handle
			} else {
				op.Root = uint64(testRoot)
			}
			handles, hashes := []uint64{world[i].handle}, []uint64{world[i].hash}
			for at := i; rapid.Bool().Draw(t, "longer"); {
				child := slices.IndexFunc(world, func(p page) bool { return p.parent == at })
				if child < 0 || slices.Contains(handles, world[child].handle) {
					break
				}
				handles, hashes = append(handles, world[child].handle), append(hashes, world[child].hash)
				at = child
			}
			b.Store(op, handles, hashes)
		}
	}
	body, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return crdt.Slot{Seq: seq, TS: int64(seq) * 1000, Body: body}
}

// drawHistory draws slots 1..n and an order of delivery with repetitions.
func drawHistory(t *rapid.T, spaces bool) (slots []crdt.Slot, order []int, world []page) {
	world = drawWorld(t)
	n := rapid.IntRange(1, 14).Draw(t, "slots")
	for seq := 1; seq <= n; seq++ {
		slots = append(slots, drawSlot(t, uint64(seq), world, spaces))
	}
	order = rapid.Permutation(seqTo(n)).Draw(t, "order")
	for rapid.Bool().Draw(t, "again") {
		order = append(order, rapid.IntRange(0, n-1).Draw(t, "repeat"))
	}
	return slots, order, world
}

func seqTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// model is the same stream over the map store.
func newModel() (*crdt.Stream, func() *crdttest.MapBlocks) {
	var shown *crdttest.MapBlocks
	s := crdt.NewStream(crdt.StreamConfig{ID: testStream, Ring: crdt.NewRing(1 << 20), Open: func(epoch uint64) crdt.Blocks {
		b := crdttest.NewMapBlocks(epoch)
		b.OnShow = func(m *crdttest.MapBlocks) { shown = m }
		return b
	}})
	return s, func() *crdttest.MapBlocks { return shown }
}

func TestFactsEqualTheMapModelAfterEveryStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spaces := rapid.Bool().Draw(t, "spaces")
		slots, order, world := drawHistory(t, spaces)
		x := newTestIndex()
		x.hold = rapid.SampledFrom([]int{1, 2, 3, 5, 8, foldFacts}).Draw(t, "hold")
		defer x.Close()
		stream, shown := newModel()
		for _, i := range order {
			d := crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}
			x.Apply(&d, 1000)
			stream.Apply(&d, 1000)
			got, want := x.streams[testStream].Blocks().(*blocks), shown()
			if s, w := got.Sum(), want.Sum(); s.Count != w.Count || s.Facts != w.Facts {
				t.Fatalf("I4: after slot %d: %d facts %x, model has %d facts %x", i+1, s.Count, s.Facts, w.Count, w.Facts)
			}
			if a, b := digestOf(x.streams[testStream]), stream.Digest(); a.Base.Count != b.Base.Count || a.Base.Facts != b.Base.Facts || !spaces && len(a.Context.Above) == 0 && a.Base.Linked < b.Base.Linked {
				// The index may link more: it remembers keys of parents that were removed.
				t.Fatalf("I5: base differs: %+v, model %+v", a.Base, b.Base)
			}
			checkSum(t, got, world, spaces)
		}
	})
}

// checkSum recomputes the sum from what is stored (I4).
func checkSum(t *rapid.T, b *blocks, world []page, spaces bool) {
	var sum crdt.Sum
	seen := map[uint64]bool{}
	for _, p := range world {
		for space := range uint64(3) {
			if space > 0 && !spaces || seen[b.effective(p.handle, space)] {
				continue
			}
			h := b.effective(p.handle, space)
			seen[h] = true
			_, linked := b.loose[h]
			f, ok := b.x.tree.Get(b.holder, h)
			if ok && linked {
				t.Fatalf("handle %x is linked and loose", h)
			}
			switch {
			case ok:
				sum.Count++
				sum.Facts ^= crdt.FactHash(p.handle, space, crdt.Meta(f.Meta))
				sum.Linked++
				sum.KeyXOR ^= crdt.KeyHash(h, uint64(f.Key))
			case linked:
				sum.Count++
				sum.Facts ^= crdt.FactHash(p.handle, space, b.loose[h].meta)
			}
		}
	}
	if sum != b.Sum() {
		t.Fatalf("I4: kept sum %+v, recomputed %+v", b.Sum(), sum)
	}
}

// keysOf chains the keys of a page's whole prefix.
func keysOf(h *radix.Hasher, world []page, i int) []radix.Key {
	if i < 0 {
		return nil
	}
	above := keysOf(h, world, world[i].parent)
	parent := testRoot
	if len(above) > 0 {
		parent = above[len(above)-1]
	}
	return append(above, h.Chain(parent, radix.TokenHash(world[i].hash)))
}

func TestMatchFindsWhatIsLinked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, order, world := drawHistory(t, false)
		x := newTestIndex()
		x.hold = rapid.SampledFrom([]int{1, 3, foldFacts}).Draw(t, "hold")
		defer x.Close()
		for _, i := range order {
			x.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}, 1000)
		}
		b := x.streams[testStream].Blocks().(*blocks)
		var v View
		for i := range world {
			keys := keysOf(x.hasher, world, i)
			want := Depth{}
			alive := [3]bool{true, true, true}
			for j, k := range keys {
				meta := crdt.Meta(0)
				for n, p := range world { // any linked fact with this key counts
					if ks := keysOf(x.hasher, world, n); ks[len(ks)-1] == k {
						if f, ok := b.x.tree.Get(b.holder, p.handle); ok && f.Key == k {
							meta |= crdt.Meta(f.Meta)
						}
					}
				}
				alive[0] = alive[0] && meta.Copies(crdt.TierGPU) > 0
				alive[1] = alive[1] && (meta.Copies(crdt.TierGPU) > 0 || meta.Copies(crdt.TierCPU) > 0)
				alive[2] = alive[2] && meta.Present()
				for class, d := range []*int{&want.GPU, &want.CPU, &want.Any} {
					if alive[class] {
						*d = j + 1
					}
				}
			}
			x.Match(keys, &v)
			if got := v.Depth(x.Ref(testStream)); got != want {
				t.Fatalf("page %d: %+v, want %+v", i, got, want)
			}
		}
	})
}

func TestBlocksWithUnknownParentsAreLinkedWhenTheParentComes(t *testing.T) {
	x := newTestIndex()
	defer x.Close()
	store := func(seq uint64, parent, handle, hash uint64) {
		var b crdt.Builder
		op := crdt.Op{Main: true, PerPage: 1, HasParent: parent != 0, Parent: parent, Root: uint64(testRoot)}
		b.Store(op, []uint64{handle}, []uint64{hash})
		body, err := b.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{{Seq: seq, TS: 1, Body: body}}}, 1)
	}
	keys := []radix.Key{}
	k := testRoot
	for _, h := range []radix.TokenHash{11, 12, 13} {
		k = x.hasher.Chain(k, h)
		keys = append(keys, k)
	}
	depth := func() int {
		var v View
		x.Match(keys, &v)
		return v.Depth(x.Ref(testStream)).GPU
	}
	store(1, 2, 3, 13)
	store(2, 1, 2, 12)
	if d := depth(); d != 0 {
		t.Fatalf("depth %d before the root is known", d)
	}
	store(3, 0, 1, 11)
	if d := depth(); d != 3 {
		t.Fatalf("depth %d after the root came", d)
	}
}

func TestSnapshotCarriesEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, order, world := drawHistory(t, rapid.Bool().Draw(t, "spaces"))
		order = order[:rapid.IntRange(1, len(order)).Draw(t, "known")]
		a, b := newTestIndex(), newTestIndex()
		defer a.Close()
		defer b.Close()
		a.hold = rapid.SampledFrom([]int{1, 3, foldFacts}).Draw(t, "hold")
		for _, i := range order {
			a.Apply(&crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}, 1000)
		}
		snap := a.Cut(testStream)
		if snap == nil {
			t.Fatal("no snapshot of a known stream")
		}
		if err := b.Join(snap, 2000); err != nil {
			t.Fatal(err)
		}
		da, _ := a.Digest(testStream)
		db, _ := b.Digest(testStream)
		if agreed(da) != agreed(db) {
			t.Fatalf("digests differ:\n%+v\n%+v", da, db)
		}
		sameDepths(t, a, b, world)
		for i := range slots { // and both go on alike
			d := crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}
			a.Apply(&d, 3000)
			b.Apply(&d, 3000)
		}
		da, _ = a.Digest(testStream)
		db, _ = b.Digest(testStream)
		if agreed(da) != agreed(db) {
			t.Fatalf("digests differ after the rest:\n%+v\n%+v", da, db)
		}
		sameDepths(t, a, b, world)
	})
}

// sameDepths asks both indexes for every prefix of the world.
func sameDepths(t *rapid.T, a, b *Index, world []page) {
	var va, vb View
	for i := range world {
		keys := keysOf(a.hasher, world, i)
		a.Match(keys, &va)
		b.Match(keys, &vb)
		if x, y := va.Depth(a.Ref(testStream)), vb.Depth(b.Ref(testStream)); x != y {
			t.Fatalf("page %d: %+v here, %+v there", i, x, y)
		}
	}
}

// agreed is the comparable part of a digest that peers must agree on.
func agreed(d crdt.Digest) any {
	type comparable struct {
		epoch, anchor, floor uint64
		count, facts         uint64
	}
	return comparable{d.Context.Epoch, d.Context.Anchor, d.Context.Floor, d.Base.Count, d.Base.Facts}
}

func TestALooseBlockOfASnapshotIsLinkedLater(t *testing.T) {
	a, b := newTestIndex(), newTestIndex()
	defer a.Close()
	defer b.Close()
	slot := func(seq, parent, handle, hash uint64) *crdt.Delta {
		var builder crdt.Builder
		builder.Store(crdt.Op{Main: true, PerPage: 1, HasParent: parent != 0, Parent: parent, Root: uint64(testRoot)}, []uint64{handle}, []uint64{hash})
		s, err := builder.Slot(seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		return &crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{s}}
	}
	a.Apply(slot(1, 1, 2, 12), 1) // below a page nobody knows yet
	if err := b.Join(a.Cut(testStream), 1); err != nil {
		t.Fatal(err)
	}
	b.Apply(slot(2, 0, 1, 11), 2)
	k1 := b.hasher.Chain(testRoot, 11)
	var v View
	b.Match([]radix.Key{k1, b.hasher.Chain(k1, 12)}, &v)
	if d := v.Depth(b.Ref(testStream)).GPU; d != 2 {
		t.Errorf("depth %d, want 2", d)
	}
}

// TestLooseBlocksOfManyPiecesAreLinkedLater joins a snapshot whose blocks, loose
// and linked, in a space and in none, fill several pieces: each is decoded into
// the memory of the one before.
func TestLooseBlocksOfManyPiecesAreLinkedLater(t *testing.T) {
	const blocks = 5000 // a chain each
	a, b := newTestIndex(), newTestIndex()
	defer a.Close()
	defer b.Close()
	word := func(chain, i int) uint64 { return uint64(chain*100_000+i+1) << 8 }
	slot := func(seq uint64, chain, from, to int) *crdt.Delta {
		op := crdt.Op{Main: true, PerPage: 1, Root: uint64(testRoot), Space: uint64(chain % 2)}
		if from > 0 {
			op.HasParent, op.Parent = true, word(chain, from-1)
		}
		var handles, hashes []uint64
		for i := from; i < to; i++ {
			handles, hashes = append(handles, word(chain, i)), append(hashes, word(chain, i)+1)
		}
		var builder crdt.Builder
		builder.Store(op, handles, hashes)
		s, err := builder.Slot(seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		return &crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{s}}
	}
	for chain := range 4 {
		a.Apply(slot(uint64(chain)+1, chain, chain/2, blocks), 1) // two without their first block
	}
	snap := a.Cut(testStream)
	if len(snap.Pieces) < 8 || a.Stats().Loose != 2*(blocks-1) {
		t.Fatalf("%d pieces, %+v", len(snap.Pieces), a.Stats())
	}
	if err := b.Join(snap, 1); err != nil {
		t.Fatal(err)
	}
	for chain := 2; chain < 4; chain++ {
		a.Apply(slot(uint64(chain)+3, chain, 0, 1), 2)
		b.Apply(slot(uint64(chain)+3, chain, 0, 1), 2)
	}
	want, _ := a.Digest(testStream)
	if got, _ := b.Digest(testStream); got.Base != want.Base || got.Base.Linked != 4*blocks {
		t.Errorf("joined %+v, want %+v", got.Base, want.Base)
	}
	var v View
	for chain := range 4 {
		keys := []radix.Key{testRoot}
		for i := range blocks {
			keys = append(keys, b.hasher.Chain(keys[i], radix.TokenHash(word(chain, i)+1)))
		}
		b.Match(keys[1:], &v)
		if d := v.Depth(b.Ref(testStream)).GPU; d != blocks {
			t.Errorf("chain %d: depth %d, want %d", chain, d, blocks)
		}
	}
}

// TestARemovedRunEndLinksNothing stores below a block that went: what peers
// link must not depend on who saw it come.
func TestARemovedRunEndLinksNothing(t *testing.T) {
	for _, clear := range []bool{false, true} {
		x := newTestIndex()
		defer x.Close()
		give(x, 1, chainSlot(t, 1, 1, 3))
		var b crdt.Builder
		if clear {
			b.Clear()
		} else {
			b.Remove(crdt.Op{Main: true}, []uint64{1003})
		}
		gone, err := b.Slot(2, 2)
		if err != nil {
			t.Fatal(err)
		}
		give(x, 2, gone)
		give(x, 3, chainSlot(t, 3, 4, 5))
		if n := x.Stats().Loose; n != 2 {
			t.Errorf("clear %v: %d loose, want 2", clear, n)
		}
	}
}
