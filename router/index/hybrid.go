package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// A hybrid model has cache groups besides the one that describes prefixes:
// recurrent layers keep a checkpoint at some block ends, sliding windows the
// last blocks. A request reuses as much as all groups have: up to the last block
// end where every recurrent group has its checkpoint and every window its
// blocks. The blocks of such a group are bare facts in the group's own space,
// with what they are needed for (crdt.Checkpoint) where a loose fact has its parent;
// a block of any group has the handle of the prefix up to its end.

// side is one group besides the main one.
type side struct {
	blocks int // so many up to the end of what is reused; 1: a checkpoint
	grid   int // grid blocks of each
	facts  int
}

// note counts a fact of a side group, or takes it away.
func (f *looseFacts) note(space, checkpoint uint64, by int) {
	s := f.sides[space]
	if s == nil {
		if f.sides == nil {
			f.sides = map[uint64]*side{}
		}
		s = &side{}
		f.sides[space] = s
	}
	if by > 0 {
		s.blocks, s.grid = int(uint32(checkpoint)), max(int(checkpoint>>32), 1)
	}
	if s.facts += by; s.facts == 0 {
		delete(f.sides, space)
	}
}

// ofSide reports whether a loose fact is a block of a side group.
func (l *loose) ofSide() bool { return len(l.hashes) == 0 && l.parent != 0 }

// storeSide folds a store of a side group.
func (b *blocks) storeSide(handles []uint64, checkpoint uint64, put func(crdt.Meta) crdt.Meta) {
	for _, h := range handles {
		if _, linked := b.x.tree.Get(b.holder, h); linked {
			b.touch(h, put) // no engine tells one handle as two things
			continue
		}
		l := b.looseAt(h)
		l.meta = b.change(h, l.meta, put(l.meta))
		if !l.ofSide() {
			b.hang(h, l, checkpoint, nil)
		}
	}
}

// lookSides bounds the blocks of side groups looked at in one hold.
const lookSides = 1024

// reusable is the last block end at or below n of a prompt's blocks where every
// side group has what it needs; done reports that the answer is final, else the
// search goes on from there. O(n times the blocks of a window) at worst, one look
// a group where the last block end is one.
func (b *blocks) reusable(keys []radix.Key, n int) (at int, done bool) {
	looks := 0
	for ; n > 0; n-- {
		if looks > lookSides {
			b.x.held += looks
			return n, false
		}
		looks++
		f, _, ok := b.x.tree.Covering(b.holder, keys[n-1])
		if !ok || f.Key != keys[n-1] {
			continue // inside a page
		}
		all := true
		for space, s := range b.sides {
			all = all && b.complete(keys, n, space, s, &looks)
		}
		if all {
			break
		}
	}
	b.x.held += looks
	return n, true
}

// complete reports whether a side group has what it needs at a block end.
func (b *blocks) complete(keys []radix.Key, n int, space uint64, s *side, looks *int) bool {
	for i := 0; i < s.blocks && n > 0; i, n = i+1, n-s.grid {
		*looks++
		f, _, ok := b.x.tree.Covering(b.holder, keys[n-1])
		if !ok || f.Key != keys[n-1] {
			return false
		}
		handle := f.Handle
		if sp, ok := b.spaced[handle]; ok {
			handle = sp.base
		}
		if l := b.loose[b.effective(handle, space)]; l == nil || !l.ofSide() {
			return false
		}
	}
	return true
}
