package radix

import "math/bits"

// factLine is what one holder holds of one line: a page's handle lies at the
// slot of its last block.
//
// Invariant I4: holder h has a level in block b's set iff the fact line of (h,
// line of b) has b's mask bit, or a spilled fact of h covers b; and every bit
// of ends is named by exactly one reference in the holder's byHandle table.
type factLine struct {
	handles [lineLen]uint64
	meta    uint64 // a Meta for all pages, or, with split, an index of metas
	line    uint32
	prev    uint32 // fact lines of the holder in order of creation; 0 ends
	next    uint32
	mask    uint16 // blocks covered
	ends    uint16 // last blocks of pages
	holder  uint16
	perPage uint8 // grid blocks of every page here
	split   bool
}

// spilled is a fact that has no room in a fact line: its page crosses lines,
// or another page of the holder covers one of its blocks. Rare, so it may be
// large.
type spilled struct {
	handle  uint64
	meta    Meta
	locs    [MaxPerPage]uint32
	prev    uint32
	next    uint32
	holder  uint16
	perPage uint8
}

// cover counts a holder's spilled facts over one block by their best tier.
type cover [Tiers]uint32

// holder is the writer's view of one holder.
type holder struct {
	id             Holder
	live, clearing bool
	count          int
	spills         int
	byHandle       table // handle -> fact line<<4|off, or spillBit|spilled
	byLine         table // line -> fact line
	first, last    uint32
	firstSpill     uint32
	near           [nearLines]nearLine
}

const nearLines = 64

// nearLine is a fact line used lately. It may be out of date.
type nearLine struct{ line, id uint32 }

func (hs *holder) nearby(line uint32) *nearLine { return &hs.near[line*0x9E3779B1>>26] }

const spillBit = 1 << 31

// pageMask covers perPage blocks up to off, which must not begin before 0.
func pageMask(off uint32, perPage int) uint16 {
	return uint16((1<<perPage - 1) << (int(off) + 1 - perPage))
}

// factMeta reads the meta of the page that ends at off.
func (t *Tree) factMeta(f *factLine, off uint32) Meta {
	if f.split {
		return t.metas.at(uint32(f.meta))[off]
	}
	return Meta(f.meta)
}

// setFactMeta writes it; all pages with one meta need one word.
func (t *Tree) setFactMeta(f *factLine, off uint32, m Meta) {
	if !f.split {
		if f.meta == uint64(m) {
			return
		}
		if f.ends&^(1<<off) == 0 {
			f.meta = uint64(m)
			return
		}
		rec := t.metas.take()
		all := t.metas.at(rec)
		for i := range all {
			all[i] = Meta(f.meta)
		}
		f.meta, f.split = uint64(rec), true
	}
	all := t.metas.at(uint32(f.meta))
	all[off] = m
	if f.ends>>off>>1 != 0 {
		return
	}
	for rest := f.ends; rest != 0; rest &= rest - 1 {
		if all[bits.TrailingZeros16(rest)] != m {
			return
		}
	}
	t.metas.give(uint32(f.meta))
	f.meta, f.split = uint64(m), false
}

// metaLevel is the level of a block under one fact: 0, else Tiers - best tier.
func metaLevel(m Meta) uint8 { return uint8(Tiers - m.Best()) }

// findFact returns the reference of a handle, 0 if h does not have it.
func (t *Tree) findFact(hs *holder, handle uint64) (ref uint32) {
	var c cursor
	return t.searchFact(&c, hs, handle, t.hash(handle))
}

// searchFact is findFact for a handle with a hash, and leaves c where in the
// table it would be.
func (t *Tree) searchFact(c *cursor, hs *holder, handle uint64, hash uint32) (ref uint32) {
	hs.byHandle.seek(c, hash)
	for {
		ref = c.next()
		if ref == 0 || t.holds(ref, handle) {
			return ref
		}
	}
}

// holds reports whether ref is where the fact of handle lies.
func (t *Tree) holds(ref uint32, handle uint64) bool {
	if ref&spillBit != 0 {
		s := &t.spills[ref&^spillBit]
		return s.handle == handle && s.perPage != 0
	}
	f := t.facts.at(ref >> lineShift)
	off := ref & lineMask
	return f.handles[off] == handle && f.ends>>off&1 == 1
}

// fact describes what lies at ref.
func (t *Tree) fact(ref uint32) Fact {
	if ref&spillBit != 0 {
		s := &t.spills[ref&^spillBit]
		return Fact{Handle: s.handle, Key: t.keyAt(s.locs[s.perPage-1]), Meta: s.meta, Blocks: int(s.perPage)}
	}
	f, off := t.facts.at(ref>>lineShift), ref&lineMask
	return Fact{
		Handle: f.handles[off], Key: t.keyAt(f.line<<lineShift | off),
		Meta: t.factMeta(f, off), Blocks: int(f.perPage),
	}
}

func (t *Tree) keyAt(loc uint32) Key { return t.lines.keys.at(loc >> lineShift)[loc&lineMask] }

// factLineOf finds the fact line of a holder on a line, 0 if there is none.
func (t *Tree) factLineOf(hs *holder, line uint32) uint32 {
	near := hs.nearby(line)
	if near.line == line {
		if f := t.facts.at(near.id); f.line == line && f.holder == uint16(hs.id) {
			return near.id
		}
	}
	var c cursor
	hs.byLine.seek(&c, t.hash(uint64(line)))
	for {
		id := c.next()
		if id == 0 {
			return 0
		}
		if t.facts.at(id).line == line {
			*near = nearLine{line, id}
			return id
		}
	}
}

// addFactLine makes one, last in the holder's list.
func (t *Tree) addFactLine(h Holder, hs *holder, line uint32) uint32 {
	id := t.facts.take()
	*t.facts.at(id) = factLine{line: line, holder: uint16(h), prev: hs.last}
	if hs.last != 0 {
		t.facts.at(hs.last).next = id
	} else {
		hs.first = id
	}
	hs.last = id
	*hs.nearby(line) = nearLine{line, id}
	hs.byLine.insert(t.hash(uint64(line)), id)
	return id
}

// dropFactLine frees one that covers nothing. The byLine table is the
// caller's to mend.
func (t *Tree) dropFactLine(hs *holder, id uint32) {
	f := t.facts.at(id)
	if f.split {
		t.metas.give(uint32(f.meta))
	}
	if f.prev != 0 {
		t.facts.at(f.prev).next = f.next
	} else {
		hs.first = f.next
	}
	if f.next != 0 {
		t.facts.at(f.next).prev = f.prev
	} else {
		hs.last = f.prev
	}
	f.line, f.split = noLine, false
	t.facts.give(id)
}

// unlink takes the fact at ref out of the tables and marks its blocks'
// levels.
func (t *Tree) unlink(h Holder, hs *holder, ref uint32) {
	hs.count--
	t.count--
	if ref&spillBit != 0 {
		t.unlinkSpill(h, hs, ref)
		return
	}
	id, off := ref>>lineShift, ref&lineMask
	f := t.facts.at(id)
	hs.byHandle.remove(t.hash(f.handles[off]), ref)
	perPage := int(f.perPage)
	f.ends &^= 1 << off
	f.mask &^= pageMask(off, perPage)
	t.mark(h, f.line, off, perPage, 0)
	if f.mask == 0 {
		hs.byLine.remove(t.hash(uint64(f.line)), id)
		t.dropFactLine(hs, id)
	}
}
