package index

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// blocks stores the facts of one incarnation of one stream: linked facts in
// the tree, loose ones (key not known yet) beside it. It implements
// crdt.Blocks. Guarded by the Index's mutex.
type blocks struct {
	x      *Index
	ref    *Ref
	holder radix.Holder
	sum    crdt.Sum // of what is visible (I4)

	looseFacts
	smallPages
	anchors
	doubt
	lookaheads

	spaced map[uint64]spaced   // effective handle -> what it stands for; only where a space is set
	spaces map[uint64][]uint64 // base handle -> effective handles in use

	undo  map[uint64]*saved // what handles were before the first fold above the floor
	order []uint64          // keys of undo, oldest first

	perPage int // grid blocks of the page linked last; 0: none was

	heldAbove  int    // bytes that the index was told the stream takes above holes
	heldBeside int64  // and beside the trees
	was        uint64 // facts when the streams were measured last

	cutting bool // a snapshot is cut: no fact may move from loose to linked

	ends [runEnds]runEnd // by handle

	op      crdt.Op     // scratch
	keys    []radix.Key // scratch
	handles []uint64    // scratch
}

// runEnd is the last block of a run stored lately, so that the run that goes on
// from there need not look its parent up. Invariant: while key is not 0 the
// handle is a linked fact with that key.
type runEnd struct {
	handle uint64
	key    radix.Key
}

// runEnds is how many are remembered: a replica runs about so many sequences.
const runEnds = 256

func (b *blocks) end(handle uint64) *runEnd { return &b.ends[handle%runEnds] }

// spaced is an entry whose handle alone is ambiguous.
type spaced struct{ base, space uint64 }

func newBlocks(x *Index, ref *Ref) *blocks {
	return &blocks{x: x, ref: ref, holder: x.tree.AddHolder()}
}

// effective names the entry (handle, space) in one word.
func (b *blocks) effective(handle, space uint64) uint64 {
	if space == 0 {
		return handle
	}
	return crdt.KeyHash(handle, space)
}

// adopt remembers that an effective handle stands for an entry in a space.
func (b *blocks) adopt(effective, base, space uint64) {
	if space == 0 {
		return
	}
	if _, ok := b.spaced[effective]; ok {
		return
	}
	if b.spaced == nil {
		b.spaced, b.spaces = map[uint64]spaced{}, map[uint64][]uint64{}
	}
	b.spaced[effective] = spaced{base, space}
	b.spaces[base] = append(b.spaces[base], effective)
}

// release forgets an entry that is no fact any more.
func (b *blocks) release(effective uint64) {
	s, ok := b.spaced[effective]
	if !ok {
		return
	}
	delete(b.spaced, effective)
	rest := slices.DeleteFunc(b.spaces[s.base], func(e uint64) bool { return e == effective })
	if len(rest) == 0 {
		delete(b.spaces, s.base)
	} else {
		b.spaces[s.base] = rest
	}
}

// aboveCost is what a fact folded above the floor or rewound costs, in facts
// folded below it: what it was is copied, and put back one by one.
const aboveCost = 2

// Fold applies a slot or a part of one. O(ops), one tree descent per run.
func (b *blocks) Fold(s *crdt.Slot, from crdt.Place, above bool, max int) (next crdt.Place, cost int) {
	each := 1
	if above {
		each = aboveCost
	}
	next, cost, err := s.Part(&b.op, from, max/each, func(op *crdt.Op) {
		b.x.held += each
		switch {
		case op.Kind == crdt.OpClear:
			b.clear()
		case op.Ahead():
			b.noteAhead(op)
		case !op.Main:
		case op.Kind == crdt.OpRemove:
			b.x.held += each * op.Handles.Len()
			b.remove(op, above)
		default:
			b.x.held += each * op.Handles.Len() * op.Blocks()
			b.store(op, s.Seq, above)
		}
	})
	if err != nil {
		panic("invariant: a slot was validated before it was applied: " + err.Error())
	}
	return next, each * cost
}

// clearNow is how many facts a clear drops at once, some 50 ns each.
const clearNow = 1024

// clear empties the incarnation. Few facts are dropped at once, and the holder
// is used on: an engine that clears again and again takes no more of them. Many
// are dropped in steps later.
func (b *blocks) clear() {
	if n := b.x.tree.Count(b.holder); n <= clearNow {
		b.x.held += n
		b.x.tree.Clear(b.holder, n)
	} else {
		old := b.holder
		shown := b.ref.shows(old)
		b.holder = b.x.tree.AddHolder()
		if shown {
			b.ref.show(b.holder)
		}
		b.x.drop(old)
	}
	b.sum = crdt.Sum{}
	b.looseFacts, b.smallPages, b.anchors, b.lookaheads, b.spaced, b.spaces = looseFacts{}, smallPages{}, anchors{}, lookaheads{}, nil, nil
	b.undo, b.order = nil, nil
	b.ends = [runEnds]runEnd{}
	b.trust()
}

func (b *blocks) store(op *crdt.Op, seq uint64, above bool) {
	handles := b.handles[:0]
	for i := range op.Handles.Len() {
		base := op.Handles.At(i)
		h := b.effective(base, op.Space)
		b.adopt(h, base, op.Space)
		handles = append(handles, h)
	}
	b.handles = handles
	if above {
		for _, h := range handles {
			b.save(h)
		}
	}
	put := func(old crdt.Meta) crdt.Meta { return op.Put(old, seq) }
	if op.Small > 0 {
		b.storeSmall(op, handles, put)
		return
	}
	if b.smallPages.any() && op.PerPage > 0 {
		for _, h := range handles {
			b.unsmall(h)
		}
	}
	if op.PerPage == 0 && op.Root != 0 && !op.HasParent {
		b.storeSide(handles, op.Root, put)
		return
	}
	if op.PerPage == 0 {
		for _, h := range handles {
			b.touch(h, put)
		}
		return
	}
	if !op.HasParent {
		b.storeRun(radix.Key(op.Root), op.PerPage, handles, op.Hashes, put)
		return
	}
	parent := b.effective(op.Parent, op.Space)
	key, ok := b.keyOf(parent)
	if op.Inside {
		ok = b.loose[parent] == nil // its run's other parts may have been linked since
	}
	if ok {
		b.storeRun(key, op.PerPage, handles, op.Hashes, put)
		return
	}
	b.storeLoose(parent, op.PerPage, handles, op.Hashes, put)
}

// storeRun puts consecutive pages below a known key.
func (b *blocks) storeRun(parent radix.Key, perPage int, handles []uint64, hashes crdt.Words, put func(crdt.Meta) crdt.Meta) {
	keys := b.keys[:0]
	k := parent
	for i := range perPage * len(handles) {
		k = b.x.hasher.Chain(k, radix.TokenHash(hashes.At(i)))
		keys = append(keys, k)
	}
	b.keys = keys
	b.place(parent, perPage, keys, handles, put)
	last := handles[len(handles)-1]
	*b.end(last) = runEnd{last, keys[len(keys)-1]}
	if len(b.waiting) > 0 {
		for i, h := range handles {
			b.link(h, keys[(i+1)*perPage-1])
		}
	}
}

// place stores linked facts; facts that were loose before keep their meta as
// the old value.
func (b *blocks) place(parent radix.Key, perPage int, keys []radix.Key, handles []uint64, put func(crdt.Meta) crdt.Meta) {
	b.perPage = perPage
	i := 0
	b.x.tree.Store(b.holder, parent, perPage, keys, handles, func(f radix.Fact) radix.Meta {
		key := keys[(i+1)*perPage-1]
		i++
		old := crdt.Meta(f.Meta)
		if old.Present() {
			if end := b.end(f.Handle); end.handle == f.Handle {
				end.key = key
			}
			b.sum.KeyXOR ^= crdt.KeyHash(f.Handle, uint64(f.Key))
			if f.Key != key {
				b.forgetAhead(f.Key, f.Handle)
			}
		} else {
			b.sum.Linked++
			b.known(f.Handle)
			if b.smallPages.any() {
				b.arrived(f.Handle, key)
			}
			if l, ok := b.loose[f.Handle]; ok {
				old = l.meta
				b.dropLoose(f.Handle)
			}
		}
		b.sum.KeyXOR ^= crdt.KeyHash(f.Handle, uint64(key))
		return radix.Meta(b.change(f.Handle, old, put(old)))
	})
}

// change adjusts the fact part of the sum for one handle and returns the new
// meta.
func (b *blocks) change(handle uint64, old, now crdt.Meta) crdt.Meta {
	if b.void != 0 {
		b.weigh(handle, old, now)
	}
	space := uint64(0)
	if len(b.spaced) > 0 {
		if s, ok := b.spaced[handle]; ok {
			handle, space = s.base, s.space
		}
	}
	if old.Present() {
		b.sum.Count--
		b.sum.Facts ^= crdt.FactHash(handle, space, old)
	}
	if now.Present() {
		b.sum.Count++
		b.sum.Facts ^= crdt.FactHash(handle, space, now)
	}
	return now
}

// touch changes a handle's meta wherever the fact is; a handle nobody knows
// becomes a bare fact.
func (b *blocks) touch(h uint64, put func(crdt.Meta) crdt.Meta) {
	if b.removeSmall(h, put) {
		b.settleSmall()
		return
	}
	if _, ok := b.x.tree.Get(b.holder, h); ok {
		b.retouch(h, put)
		return
	}
	l := b.looseAt(h)
	l.meta = b.change(h, l.meta, put(l.meta))
}

// retouch changes the meta of a linked fact.
func (b *blocks) retouch(h uint64, put func(crdt.Meta) crdt.Meta) {
	b.x.tree.Remove(b.holder, []uint64{h}, b.updater(put))
}

// updater adapts an arithmetic on linked facts to the tree, keeping the sum.
func (b *blocks) updater(put func(crdt.Meta) crdt.Meta) radix.Update {
	return func(f radix.Fact) radix.Meta {
		old := crdt.Meta(f.Meta)
		now := b.change(f.Handle, old, put(old))
		if !now.Present() {
			b.sum.Linked--
			b.sum.KeyXOR ^= crdt.KeyHash(f.Handle, uint64(f.Key))
			if end := b.end(f.Handle); end.handle == f.Handle {
				*end = runEnd{}
			}
			b.release(f.Handle)
			b.forgetAhead(f.Key, f.Handle)
		}
		return radix.Meta(now)
	}
}

func (b *blocks) remove(op *crdt.Op, above bool) {
	handles := b.handles[:0]
	for i := range op.Handles.Len() {
		base := op.Handles.At(i)
		if op.AnySpace {
			handles = append(handles, base)
			handles = append(handles, b.spaces[base]...)
		} else {
			handles = append(handles, b.effective(base, op.Space))
		}
	}
	b.handles = handles
	if above {
		for _, h := range handles {
			b.save(h)
		}
	}
	drop := func(old crdt.Meta) crdt.Meta { return old.Remove(op.Mode, op.Tier) }
	if b.smallPages.any() {
		others := handles[:0]
		for _, h := range handles {
			if !b.removeSmall(h, drop) {
				others = append(others, h)
			}
		}
		handles = others
		b.settleSmall()
	}
	if len(b.loose) > 0 {
		linked := handles[:0]
		for _, h := range handles {
			l, ok := b.loose[h]
			if !ok {
				linked = append(linked, h)
				continue
			}
			l.meta = b.change(h, l.meta, drop(l.meta))
			if !l.meta.Present() {
				b.dropLoose(h)
				b.release(h)
			}
		}
		handles = linked
	}
	if len(handles) > 0 {
		b.x.tree.Remove(b.holder, handles, b.updater(drop))
	}
}

// Sum adds up the visible facts. O(1).
func (b *blocks) Sum() crdt.Sum { return b.sum }

// Show makes readers see this incarnation. O(1).
func (b *blocks) Show() {
	b.ref.show(b.holder)
	b.mark()
	b.tell()
}

// tell lets readers know how much there is, if they see it.
func (b *blocks) tell() {
	if b.ref.shows(b.holder) {
		small := int64(b.smallPages.tokens / b.x.grid)
		b.ref.blocks.Store((int64(b.sum.Count)-int64(b.smallPages.held))*int64(b.perPage) + small)
	}
}

// Drop forgets the facts, in steps later. The store is not used again.
func (b *blocks) Drop() {
	if b.ref.hide(b.holder) {
		b.ref.flags.Store(0)
		b.ref.blocks.Store(0)
	}
	b.looseFacts, b.smallPages, b.anchors, b.doubt, b.lookaheads = looseFacts{}, smallPages{}, anchors{}, doubt{}, lookaheads{}
	b.account(0, 0)
	b.x.drop(b.holder)
}
