package index

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
	"github.com/banyan-llm/banyan/radix"
)

// smallGrid keeps blocks short in drawn worlds: 4 tokens.
const smallGrid = 4

func newSmallIndex(grid int) *Index {
	return New(Config{Hasher: radix.NewHasher([]byte("test secret 0123")), RingBytes: 1 << 20, Grid: grid})
}

// tok is a page of a drawn world of small pages: a position in a tree of
// chains, its handle naming the whole prefix.
type tok struct {
	handle uint64
	tokens []uint32
	parent int
}

// storeSmallRun appends a store of pages to a batch.
func storeSmallRun(h *radix.Hasher, b *crdt.Builder, op crdt.Op, pages []tok) {
	op.Small = len(pages[0].tokens)
	op.PerPage = crdt.SmallWords(op.Small)
	var handles, words []uint64
	for _, p := range pages {
		page := make([]uint64, op.PerPage)
		for j, t := range p.tokens {
			page[j/2] |= uint64(t) << (32 * (j % 2))
		}
		for j := range page {
			page[j] ^= h.Mask(p.handle, j)
		}
		handles, words = append(handles, p.handle), append(words, page...)
	}
	b.Store(op, handles, words)
}

func drawSmallWorld(t *rapid.T, size int) []tok {
	world := make([]tok, rapid.IntRange(1, 40).Draw(t, "pages"))
	for i := range world {
		// Mostly long chains, now and then a fork.
		parent := i - 1
		if rapid.IntRange(0, 5).Draw(t, "fork") == 0 {
			parent = rapid.IntRange(-1, i-1).Draw(t, "parent")
		}
		p := tok{parent: parent}
		up := uint64(7)
		if parent >= 0 {
			up = world[parent].handle
		}
		for range size {
			p.tokens = append(p.tokens, uint32(rapid.IntRange(1, 2).Draw(t, "token")))
		}
		for _, token := range p.tokens {
			up = crdt.FactHash(up, 99, crdt.Meta(token)) | 1
		}
		p.handle = up
		world[i] = p
	}
	return world
}

// drawSmallSlot draws a batch of stores and removals of runs of the world.
func drawSmallSlot(t *rapid.T, h *radix.Hasher, seq uint64, world []tok, spaces bool) crdt.Slot {
	var b crdt.Builder
	mode := crdt.Mode(rapid.IntRange(0, 1).Draw(t, "mode"))
	for range rapid.IntRange(0, 4).Draw(t, "ops") {
		op := crdt.Op{Mode: mode, Tier: crdt.Tier(rapid.IntRange(0, 2).Draw(t, "tier")), Main: true}
		if spaces {
			op.Space = uint64(rapid.IntRange(0, 2).Draw(t, "space"))
		}
		run := []tok{world[rapid.IntRange(0, len(world)-1).Draw(t, "page")]}
		at := slices.IndexFunc(world, func(p tok) bool { return p.handle == run[0].handle })
		for left := rapid.IntRange(0, 12).Draw(t, "longer"); left > 0; left-- {
			child := slices.IndexFunc(world, func(p tok) bool { return p.parent == at })
			if child < 0 {
				break
			}
			run, at = append(run, world[child]), child
		}
		switch kind := rapid.IntRange(0, 19).Draw(t, "kind"); {
		case kind == 0:
			b.Clear()
		case kind < 7:
			op.AnySpace = spaces && rapid.Bool().Draw(t, "any")
			var handles []uint64
			for _, p := range run {
				handles = append(handles, p.handle)
			}
			if rapid.Bool().Draw(t, "leaf first") {
				slices.Reverse(handles)
			}
			b.Remove(op, handles)
		case kind == 7:
			b.Store(op, []uint64{run[0].handle}, nil) // bare: one more tier
		default:
			if up := run[0].parent; up >= 0 {
				op.HasParent, op.Parent = true, world[up].handle
			} else {
				op.Root = uint64(testRoot) + op.Space
			}
			storeSmallRun(h, &b, op, run)
		}
	}
	s, err := b.Slot(seq, int64(seq)*1000)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smallModel is what a world of small pages should look like.
type smallModel struct {
	world []tok
	pages int // a grid block
}

// depths works out in the dumbest way what a prompt that is the chain up to
// page i finds: blocks are there while all of their pages are.
func (m *smallModel) depths(i int, meta func(handle uint64) (crdt.Meta, bool)) (d Depth) {
	var chain []int
	for ; i >= 0; i = m.world[i].parent {
		chain = append(chain, i)
	}
	slices.Reverse(chain)
	gpu, cpu, any := true, true, true
	for n := 0; n+m.pages <= len(chain); n += m.pages {
		for _, i := range chain[n : n+m.pages] {
			f, told := meta(m.world[i].handle)
			gpu = gpu && told && f.Copies(crdt.TierGPU) > 0
			cpu = cpu && told && (f.Copies(crdt.TierGPU) > 0 || f.Copies(crdt.TierCPU) > 0)
			any = any && told && f.Present()
		}
		at := n/m.pages + 1
		if gpu {
			d.GPU = at
		}
		if cpu {
			d.CPU = at
		}
		if any {
			d.Any = at
		}
	}
	return d
}

// keys are the block keys of the chain up to page i.
func (m *smallModel) keys(h *radix.Hasher, i int, space uint64) []radix.Key {
	var tokens []uint32
	var chain []int
	for ; i >= 0; i = m.world[i].parent {
		chain = append(chain, i)
	}
	for n := range chain {
		tokens = append(tokens, m.world[chain[len(chain)-1-n]].tokens...)
	}
	return h.AppendKeys(nil, testRoot+radix.Key(space), smallGrid, tokens)
}

// checkSmall compares facts, sums and matches with the model.
func checkSmall(t *rapid.T, what string, x *Index, m *smallModel, facts *crdttest.MapBlocks) {
	b := x.streams[testStream].Blocks().(*blocks)
	if got, want := b.Sum(), facts.Sum(); got.Count != want.Count || got.Facts != want.Facts {
		t.Fatalf("%s: I4: %d facts %x, the model has %d facts %x", what, got.Count, got.Facts, want.Count, want.Facts)
	}
	var v View
	for n := range 3 * len(m.world) { // the same prompts in each space
		i, space := n/3, uint64(n%3)
		keys := m.keys(x.hasher, i, space)
		if len(keys) == 0 {
			continue
		}
		want := m.depths(i, func(h uint64) (crdt.Meta, bool) {
			f := facts.Facts[crdttest.Entry{Handle: h, Space: space}]
			return f.Meta, len(f.Hashes) > 0 // told, and reachable: the depth stops at what is not
		})
		x.Match(keys, &v)
		if got := v.Depth(x.Ref(testStream)); got != want {
			t.Fatalf("%s: page %d in space %d: %+v, want %+v", what, i, space, got, want)
		}
	}
}

// TestSmallPagesAreBlocks stores and removes pages shorter than a grid block in
// any order of slots and holds facts, sums and matches against a model; then
// another peer joins a snapshot and must see the same.
func TestSmallPagesAreBlocks(t *testing.T) {
	for _, size := range []int{1, 2} {
		for _, spaces := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d tokens, spaces %v", size, spaces), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					x := newSmallIndex(smallGrid)
					defer x.Close()
					x.hold = rapid.SampledFrom([]int{1, 2, 3, 5, 8, foldFacts}).Draw(t, "hold")
					world := drawSmallWorld(t, size)
					m := &smallModel{world: world, pages: smallGrid / size}
					n := rapid.IntRange(1, 12).Draw(t, "slots")
					var slots []crdt.Slot
					for seq := 1; seq <= n; seq++ {
						slots = append(slots, drawSmallSlot(t, x.hasher, uint64(seq), world, spaces))
					}
					stream, shown := newModel()
					for _, i := range rapid.Permutation(seqTo(n)).Draw(t, "order") {
						d := crdt.Delta{Stream: testStream, Epoch: 5, Anchor: 1, Slots: slots[i : i+1]}
						x.Apply(&d, 1000)
						stream.Apply(&d, 1000)
						checkSmall(t, fmt.Sprintf("slot %d", i+1), x, m, shown())
					}
					snap := x.Cut(testStream)
					if snap == nil {
						return
					}
					y := newSmallIndex(smallGrid)
					defer y.Close()
					if err := y.Join(snap, 1000); err != nil {
						t.Fatal(err)
					}
					checkSmall(t, "after a snapshot", y, m, shown())
					a, _ := x.Digest(testStream)
					c, _ := y.Digest(testStream)
					if a.Base != c.Base {
						t.Fatalf("a snapshot has %+v, its donor %+v", c.Base, a.Base)
					}
				})
			})
		}
	}
}
