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

	loose   map[uint64]*loose   // by handle
	waiting map[uint64][]uint64 // parent handle -> handles of loose facts; may hold stale ones
	spaced  map[uint64]spaced   // effective handle -> what it stands for; only where a space is set
	spaces  map[uint64][]uint64 // base handle -> effective handles in use

	undo  map[uint64]*saved // what handles were before the first fold above the floor
	order []uint64          // keys of undo, oldest first
	scan  []uint64          // handles still to be scanned after the tree

	keys    []radix.Key // scratch
	handles []uint64    // scratch
}

// loose is a fact whose block key is unknown: its parent was never seen, or
// nobody told its tokens (no hashes).
type loose struct {
	parent uint64   // handle
	hashes []uint64 // token hashes of the page's grid blocks
	meta   crdt.Meta
}

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

// Fold applies one slot. O(ops), one tree descent per run.
func (b *blocks) Fold(s *crdt.Slot, above bool) {
	err := s.Ops(func(op *crdt.Op) bool {
		switch op.Kind {
		case crdt.OpClear:
			b.clear()
		case crdt.OpRemove:
			if op.Main {
				b.remove(op, above)
			}
		case crdt.OpStore:
			if op.Main {
				b.store(op, s.Seq, above)
			}
		}
		return true
	})
	if err != nil {
		panic("invariant: a slot was validated before it was applied: " + err.Error())
	}
}

// clear empties the incarnation in O(1): the facts are dropped in steps later.
func (b *blocks) clear() {
	old := b.holder
	shown := b.ref.shows(old)
	b.holder = b.x.tree.AddHolder()
	b.sum = crdt.Sum{}
	b.loose, b.waiting, b.spaced, b.spaces = nil, nil, nil, nil
	b.undo, b.order = nil, nil
	if shown {
		b.ref.show(b.holder)
	}
	b.x.drop(old)
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
	put := func(old crdt.Meta) crdt.Meta { return old.Store(op.Mode, op.Tier, seq) }
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
	if f, ok := b.x.tree.Get(b.holder, parent); ok {
		b.storeRun(f.Key, op.PerPage, handles, op.Hashes, put)
		return
	}
	if op.Space != 0 {
		if f, ok := b.x.tree.Get(b.holder, op.Parent); ok {
			b.storeRun(f.Key, op.PerPage, handles, op.Hashes, put)
			return
		}
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
	if len(b.waiting) > 0 {
		for i, h := range handles {
			b.link(h, keys[(i+1)*perPage-1])
		}
	}
}

// place stores linked facts; facts that were loose before keep their meta as
// the old value.
func (b *blocks) place(parent radix.Key, perPage int, keys []radix.Key, handles []uint64, put func(crdt.Meta) crdt.Meta) {
	i := 0
	b.x.tree.Store(b.holder, parent, perPage, keys, handles, func(f radix.Fact) radix.Meta {
		key := keys[(i+1)*perPage-1]
		i++
		old := crdt.Meta(f.Meta)
		if old.Present() {
			b.sum.KeyXOR ^= crdt.KeyHash(f.Handle, uint64(f.Key))
		} else {
			b.sum.Linked++
			if l, ok := b.loose[f.Handle]; ok {
				old = l.meta
				delete(b.loose, f.Handle)
			}
		}
		b.sum.KeyXOR ^= crdt.KeyHash(f.Handle, uint64(key))
		return radix.Meta(b.change(f.Handle, old, put(old)))
	})
}

// change adjusts the fact part of the sum for one handle and returns the new
// meta.
func (b *blocks) change(handle uint64, old, now crdt.Meta) crdt.Meta {
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

// storeLoose keeps pages whose parent is unknown until it comes. Pages that
// are linked already (a repeated store) anchor the rest of the run.
func (b *blocks) storeLoose(parent uint64, perPage int, handles []uint64, hashes crdt.Words, put func(crdt.Meta) crdt.Meta) {
	for i, h := range handles {
		if f, ok := b.x.tree.Get(b.holder, h); ok {
			b.retouch(h, put)
			if rest := handles[i+1:]; len(rest) > 0 {
				b.storeRun(f.Key, perPage, rest, hashes[8*perPage*(i+1):], put)
			}
			return
		}
		l := b.looseAt(h)
		l.parent = parent
		l.hashes = l.hashes[:0]
		for j := range perPage {
			l.hashes = append(l.hashes, hashes.At(i*perPage+j))
		}
		l.meta = b.change(h, l.meta, put(l.meta))
		b.wait(parent, h)
		parent = h
	}
}

func (b *blocks) wait(parent, child uint64) {
	if b.waiting == nil {
		b.waiting = map[uint64][]uint64{}
	}
	if !slices.Contains(b.waiting[parent], child) {
		b.waiting[parent] = append(b.waiting[parent], child)
	}
}

func (b *blocks) looseAt(h uint64) *loose {
	if b.loose == nil {
		b.loose = map[uint64]*loose{}
	}
	l := b.loose[h]
	if l == nil {
		l = &loose{}
		b.loose[h] = l
	}
	return l
}

// touch changes a handle's meta wherever the fact is; a handle nobody knows
// becomes a bare fact.
func (b *blocks) touch(h uint64, put func(crdt.Meta) crdt.Meta) {
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
			b.release(f.Handle)
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
				delete(b.loose, h)
				b.release(h)
			}
		}
		handles = linked
	}
	if len(handles) > 0 {
		b.x.tree.Remove(b.holder, handles, b.updater(drop))
	}
}

// link gives the loose facts that wait for a handle their keys, and those
// that wait for them in turn.
func (b *blocks) link(handle uint64, key radix.Key) {
	type known struct {
		handle uint64
		key    radix.Key
	}
	todo := []known{{handle, key}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		children, ok := b.waiting[at.handle]
		if !ok {
			continue
		}
		delete(b.waiting, at.handle)
		for _, child := range children {
			l, ok := b.loose[child]
			if !ok || l.parent != at.handle || len(l.hashes) == 0 {
				continue
			}
			k := at.key
			keys := make([]radix.Key, 0, len(l.hashes))
			for _, t := range l.hashes {
				k = b.x.hasher.Chain(k, radix.TokenHash(t))
				keys = append(keys, k)
			}
			b.place(at.key, len(keys), keys, []uint64{child}, func(old crdt.Meta) crdt.Meta { return old })
			todo = append(todo, known{child, k})
		}
	}
}

// Sum adds up the visible facts. O(1).
func (b *blocks) Sum() crdt.Sum { return b.sum }

// Show makes readers see this incarnation. O(1).
func (b *blocks) Show() { b.ref.show(b.holder) }

// Drop forgets the facts, in steps later. The store is not used again.
func (b *blocks) Drop() {
	b.ref.hide(b.holder)
	b.x.drop(b.holder)
}
