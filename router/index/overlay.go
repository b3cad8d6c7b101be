package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// saved is what one handle was before slots were folded above the floor.
type saved struct {
	exists bool
	meta   crdt.Meta
	// linked facts
	parent radix.Key // placement hint
	keys   []radix.Key
	// loose facts
	loose *loose
	small *savedSmall
	space spaced
}

// save remembers a handle's base value, once.
func (b *blocks) save(h uint64) {
	if _, ok := b.undo[h]; ok {
		return
	}
	if b.undo == nil {
		b.undo = map[uint64]*saved{}
	}
	b.undo[h] = b.state(h)
	b.order = append(b.order, h)
}

// state copies everything known of one handle.
func (b *blocks) state(h uint64) *saved {
	s := &saved{space: b.spaced[h]}
	if i, ok := b.smallPages.present(h); ok {
		s.exists, s.meta, s.small = true, b.smallPages.rec(i).meta, b.placeOf(i)
		return s
	}
	if l, ok := b.loose[h]; ok {
		s.exists, s.meta = true, l.meta
		s.loose = &loose{parent: l.parent, hashes: append([]uint64(nil), l.hashes...), meta: l.meta}
		return s
	}
	if parent, keys, meta, ok := b.x.tree.Page(b.holder, h, nil); ok {
		s.exists, s.meta, s.parent, s.keys = true, crdt.Meta(meta), parent, keys
	}
	return s
}

// Rewind restores the base, newest first: handles touched above the floor get
// the value they had. A key learned meanwhile stays known.
func (b *blocks) Rewind(max int) (done int) {
	for ; done < max && len(b.order) > 0; done += aboveCost {
		last := len(b.order) - 1
		h := b.order[last]
		s := b.undo[h]
		b.order = b.order[:last]
		delete(b.undo, h)
		b.restore(h, s)
	}
	b.x.held += done
	if len(b.order) == 0 {
		b.undo, b.order = nil, nil
	}
	return done
}

// Settle makes the overlay part of the base.
func (b *blocks) Settle() { b.undo, b.order = nil, nil }

func (b *blocks) restore(h uint64, s *saved) {
	if s.small != nil {
		b.restoreSmall(h, s)
		return
	}
	if !s.exists && b.removeSmall(h, func(crdt.Meta) crdt.Meta { return 0 }) {
		b.settleSmall()
		return
	}
	b.unsmall(h)
	_, linked := b.x.tree.Get(b.holder, h)
	was := func(crdt.Meta) crdt.Meta { return s.meta }
	if s.exists {
		b.adopt(h, s.space.base, s.space.space)
	}
	switch {
	case !s.exists && linked, s.exists && linked:
		b.retouch(h, was) // a meta without copies removes the fact
	case !s.exists:
		if l, ok := b.loose[h]; ok {
			b.change(h, l.meta, 0)
			b.dropLoose(h)
			b.release(h)
		}
	case s.loose == nil:
		b.place(s.parent, len(s.keys), s.keys, []uint64{h}, was)
	default:
		l := b.looseAt(h)
		b.change(h, l.meta, s.meta)
		l.meta = s.meta
		b.hang(h, l, s.loose.parent, s.loose.hashes)
		if key, ok := b.keyOf(l.parent); ok && len(l.hashes) > 0 {
			b.link(l.parent, key)
		}
	}
}
