package radix

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// MaxPerPage is the largest number of grid blocks a page may have.
const MaxPerPage = 16

// Tree says which holder caches which prefix. All methods but NewReader, and
// all Readers' methods, belong to one writer at a time, whom the caller
// serialises; readers take no lock and never wait.
type Tree struct {
	seed uint64
	mem  memory

	// Readers see these.
	epochs epochs
	heads  heads
	lines  lines
	mixed  pool[mixedLine]
	sets   sets
	words  atomic.Uint32 // 64-holder words that a Match needs
	hint   atomic.Uint32 // spreads readers over epoch slots

	// The writer's own.
	blocks     blocks
	keys       table // every key -> line<<4|off
	facts      pool[factLine]
	metas      pool[[lineLen]Meta]
	holders    []*holder
	free       []Holder // descending: the lowest is used first
	count      int
	ends       [endsLen]runEnd // by key
	spills     []spilled       // 0 is never used
	freeSpills []uint32
	covers     map[uint64]cover // holder<<32|loc
	retired    []retired        // from reclaimed on
	reclaimed  int
	awaited    Key // what PrefetchKey was told last

	// Scratch of one writing call.
	pending pending
	emptied []uint32
	locs    []uint32
	refs    [batch]uint32
	hashes  [batch]uint32 // of handles
	runs    runBuffer
	sink    uint64 // keeps touching loads alive
}

// batch is how many table slots are touched ahead of their use.
const batch = 32

// NewTree returns an empty tree. It holds at most 2^29 blocks and 2^29 facts.
func NewTree() *Tree { return newTree(0) }

// newTree keys the hash tables; answers do not depend on it.
func newTree(seed uint64) *Tree {
	t := &Tree{seed: seed ^ 0x5851F42D4C957F2D, spills: make([]spilled, 1), covers: map[uint64]cover{}}
	t.epochs.now.Store(1)
	t.blocks.mem = &t.mem
	t.keys = newTable(&t.blocks)
	t.mixed.mem, t.facts.mem, t.metas.mem = &t.mem, &t.mem, &t.mem
	t.lines.init(&t.mem)
	t.facts.extend(1) // 0 is nothing
	t.sets.init(&t.mem, t.seed, &t.blocks)
	t.words.Store(1)
	return t
}

// Close frees the tree's memory at once. Neither it nor its readers may be
// used again: no Match may be running.
func (t *Tree) Close() { t.mem.close() }

// MaxHolders is how many holders a tree has at most. Whoever adds holders at
// the word of a stranger keeps far below it.
const MaxHolders = 1 << 16

// AddHolder returns the lowest holder that is not in use: a Match looks at every
// number up to the highest one. Beyond MaxHolders it panics.
func (t *Tree) AddHolder() Holder {
	hs := &holder{live: true, byHandle: newTable(&t.blocks), byLine: newTable(&t.blocks)}
	if n := len(t.free); n > 0 {
		h := t.free[n-1]
		t.free = t.free[:n-1]
		hs.id, t.holders[h] = h, hs
		return h
	}
	h := Holder(len(t.holders))
	hs.id = h
	if h >= MaxHolders {
		panic("invariant: a tree has at most 65,536 holders")
	}
	t.holders = append(t.holders, hs)
	t.words.Store(uint32(h>>6) + 1)
	return h
}

// FreeHolder gives back a holder that has no facts. If it was the highest one,
// matches no longer look so far. O(holders that are free).
func (t *Tree) FreeHolder(h Holder) {
	hs := t.holder(h)
	if hs.count != 0 {
		panic("invariant: a freed holder has no facts")
	}
	hs.byHandle.drop()
	hs.byLine.drop()
	t.holders[h] = nil
	n := len(t.holders)
	for ; n > 0 && t.holders[n-1] == nil; n-- {
	}
	if n < len(t.holders) {
		t.holders = t.holders[:n]
		t.words.Store(uint32(max(n-1, 0)>>6) + 1)
		t.free = slices.DeleteFunc(t.free, func(f Holder) bool { return int(f) >= n })
	}
	if int(h) < n {
		at, _ := slices.BinarySearchFunc(t.free, h, func(f, h Holder) int { return cmp.Compare(h, f) })
		t.free = slices.Insert(t.free, at, h)
	}
}

// Width is how many words of 64 holders a Match looks at.
func (t *Tree) Width() int { return int(t.words.Load()) }

// Expect makes room in an empty holder's table of handles for about so many
// facts, lest it grow step by step as they come. It takes some 0.3 ms at most
// and is to be called again, before the first of them, while there is more to
// do. What it takes is what the facts will need, about 13 bytes each.
func (t *Tree) Expect(h Holder, facts int) (more bool) {
	table := &t.writable(h).byHandle
	table.expect(facts)
	return table.prepare(expectParts)
}

// expectParts is how many parts of 64 KiB one Expect takes.
const expectParts = 8

// Count is the number of facts of h.
func (t *Tree) Count(h Holder) int { return t.holder(h).count }

// Get returns the fact of h with this handle.
func (t *Tree) Get(h Holder, handle uint64) (Fact, bool) {
	ref := t.findFact(t.holder(h), handle)
	if ref == 0 {
		return Fact{}, false
	}
	return t.fact(ref), true
}

// Prefetch begins to load what a Store or Remove of a handle will look at
// first: worth a cache miss to a caller with other things to do before. O(1).
func (t *Tree) Prefetch(h Holder, handle uint64) {
	t.holder(h).byHandle.prefetch(t.hash(handle))
}

// PrefetchKey begins to load what a Store of a run that begins with k will look
// at besides; it follows a Prefetch of the run's first handle. O(1).
func (t *Tree) PrefetchKey(k Key) {
	t.keys.prefetch(t.hash(uint64(k)))
	t.awaited = k
}

func (t *Tree) holder(h Holder) *holder {
	if int(h) >= len(t.holders) || t.holders[h] == nil {
		panic("invariant: the holder was added and not freed")
	}
	return t.holders[h]
}

// writable is holder for calls that change or enumerate facts.
func (t *Tree) writable(h Holder) *holder {
	hs := t.holder(h)
	if hs.clearing {
		panic("invariant: nothing but Clear uses a holder that is being cleared")
	}
	return hs
}

// hash is what the tables use, odd; keys and handles are strangers' words.
func (t *Tree) hash(x uint64) uint32 {
	return spread(uint32(fold(x^t.seed, 0xD6E8FEB86659FD93)>>32)) | 1
}

// finish ends a writing call.
func (t *Tree) finish() {
	t.flush()
	t.dropEmptied()
	t.reclaim(64)
}
