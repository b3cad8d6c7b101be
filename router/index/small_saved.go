package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// savedSmall is a small page as it was: what it hung below and its tokens.
type savedSmall struct {
	linked bool // parent is a root's key
	parent uint64
	base   uint64 // handle of the parent, if that is one in a space
	space  uint64
	words  []uint64
	size   int
}

// placeOf is what a page's record says of its place and tokens.
func (b *blocks) placeOf(i uint32) *savedSmall {
	s := &b.smallPages
	p := s.rec(i)
	up := s.rec(p.parent)
	tokens := s.tokensOf(nil, i)
	out := &savedSmall{parent: up.handle, linked: s.roots[radix.Key(up.handle)] == p.parent, size: int(p.size), words: make([]uint64, crdt.SmallWords(int(p.size)))}
	for j, t := range tokens {
		out.words[j/2] |= uint64(t) << (32 * (j % 2))
	}
	if sp, ok := b.spaced[up.handle]; ok && !out.linked {
		out.base, out.space = sp.base, sp.space
	}
	return out
}

// restoreSmall puts a page back as it was before slots were folded above the
// floor, whatever the handle is now.
func (b *blocks) restoreSmall(h uint64, was *saved) {
	s := &b.smallPages
	keep := func(crdt.Meta) crdt.Meta { return was.meta }
	if _, ok := s.present(h); !ok {
		gone := func(crdt.Meta) crdt.Meta { return 0 }
		if l, ok := b.loose[h]; ok {
			b.change(h, l.meta, 0)
			b.dropLoose(h)
		} else if _, ok := b.x.tree.Get(b.holder, h); ok {
			b.retouch(h, gone)
		}
		b.adopt(h, was.space.base, was.space.space)
	}
	above := b.smallBelow(was.small.linked, was.small.parent, was.small.base, was.small.space)
	s.words = append(s.words[:0], was.small.words...)
	at := b.putSmall(h, above, was.small.size, keep)
	b.dropSmall(above)
	b.dropSmall(at)
	b.settleSmall()
}

// scanSmall appends the pages among some records that are as they were at the
// floor, consecutive ones of a chain as one run.
func (b *blocks) scanSmall(dst *crdt.Rows, from, to int) {
	s := &b.smallPages
	last := uint32(0)
	for n := from; n < to; n++ {
		i := uint32(n)
		p := s.rec(i)
		if !p.meta.Present() {
			continue
		}
		if _, touched := b.undo[p.handle]; touched {
			continue
		}
		handle, space := p.handle, uint64(0)
		if sp, ok := b.spaced[p.handle]; ok {
			handle, space = sp.base, sp.space
		}
		if run := len(dst.Runs) - 1; last != 0 && last == i-1 && p.parent == last && s.rec(last).size == p.size && dst.Runs[run].Space == space {
			dst.Runs[run].Pages++
			s.words = s.words[:0]
			for range crdt.SmallWords(int(p.size)) {
				s.words = append(s.words, 0)
			}
			s.block = s.tokensOf(s.block[:0], i)
			for j, t := range s.block {
				s.words[j/2] |= uint64(t) << (32 * (j % 2))
			}
			b.appendSmallPage(dst, handle, p.meta, s.words)
		} else {
			b.appendSmall(dst, handle, space, p.meta, b.placeOf(i))
		}
		last = i
	}
}

// appendSmall appends a run of one page.
func (b *blocks) appendSmall(dst *crdt.Rows, handle, space uint64, meta crdt.Meta, at *savedSmall) {
	parent := at.parent
	if at.space != 0 {
		parent = at.base
	}
	dst.Runs = append(dst.Runs, crdt.RunHead{
		Pages: 1, PerPage: len(at.words), Small: at.size, Space: space, Linked: at.linked, Parent: parent,
	})
	b.appendSmallPage(dst, handle, meta, at.words)
}

func (b *blocks) appendSmallPage(dst *crdt.Rows, handle uint64, meta crdt.Meta, words []uint64) {
	dst.Handle = append(dst.Handle, handle)
	dst.Meta = append(dst.Meta, meta)
	for j, w := range words {
		dst.Value = append(dst.Value, w^b.x.hasher.Mask(handle, j))
	}
}

// loadSmall adds small pages of a snapshot. base are their handles as told.
func (b *blocks) loadSmall(run crdt.RunHead, base, handles []uint64, metas []crdt.Meta, values []uint64) {
	if b.x.grid%run.Small != 0 || b.x.grid > maxGrid {
		return
	}
	s := &b.smallPages
	parent := run.Parent
	if !run.Linked {
		parent = b.effective(parent, run.Space)
	}
	at := b.smallBelow(run.Linked, parent, run.Parent, run.Space)
	above := at
	s.touched = s.touched[:0]
	for i, h := range handles {
		s.words = s.words[:0]
		for j := range run.PerPage {
			s.words = append(s.words, values[i*run.PerPage+j]^b.x.hasher.Mask(base[i], j))
		}
		at = b.putSmall(h, at, run.Small, func(crdt.Meta) crdt.Meta { return metas[i] })
	}
	b.dropSmall(above)
	b.dropSmall(at)
	b.settleSmall()
}
