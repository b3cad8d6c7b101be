package radix

// addSpill stores a fact outside of the fact lines; locs are the places of
// its page.
func (t *Tree) addSpill(h Holder, hs *holder, handle uint64, m Meta, locs []uint32) {
	var id uint32
	if n := len(t.freeSpills); n > 0 {
		id = t.freeSpills[n-1]
		t.freeSpills = t.freeSpills[:n-1]
	} else {
		id = uint32(len(t.spills))
		t.spills = append(t.spills, spilled{})
	}
	s := &t.spills[id]
	*s = spilled{handle: handle, meta: m, holder: uint16(h), perPage: uint8(len(locs)), next: hs.firstSpill}
	copy(s.locs[:], locs)
	if s.next != 0 {
		t.spills[s.next].prev = id
	}
	hs.firstSpill = id
	hs.spills++
	t.pending.plain = false
	hs.byHandle.insert(t.hash(handle), spillBit|id)
	t.coverSpill(h, hs, s, m, +1)
}

// unlinkSpill undoes addSpill.
func (t *Tree) unlinkSpill(h Holder, hs *holder, ref uint32) {
	id := ref &^ spillBit
	s := &t.spills[id]
	hs.byHandle.remove(t.hash(s.handle), ref)
	if s.prev != 0 {
		t.spills[s.prev].next = s.next
	} else {
		hs.firstSpill = s.next
	}
	if s.next != 0 {
		t.spills[s.next].prev = s.prev
	}
	t.coverSpill(h, hs, s, s.meta, -1)
	hs.spills--
	*s = spilled{}
	t.freeSpills = append(t.freeSpills, id)
}

// setSpillMeta changes the meta of a spilled fact that stays.
func (t *Tree) setSpillMeta(h Holder, hs *holder, id uint32, m Meta) {
	s := &t.spills[id]
	if s.meta.Best() != m.Best() {
		t.coverSpill(h, hs, s, s.meta, -1)
		t.coverSpill(h, hs, s, m, +1)
	}
	s.meta = m
}

// coverSpill counts a fact over its blocks and marks their levels.
func (t *Tree) coverSpill(h Holder, hs *holder, s *spilled, m Meta, by int) {
	for _, loc := range s.locs[:s.perPage] {
		key := uint64(h)<<32 | uint64(loc)
		c := t.covers[key]
		c[m.Best()] += uint32(by)
		if c == (cover{}) {
			delete(t.covers, key)
		} else {
			t.covers[key] = c
		}
	}
	for _, loc := range s.locs[:s.perPage] {
		var slot uint8
		if id := t.factLineOf(hs, loc>>lineShift); id != 0 {
			slot = t.slotLevel(t.facts.at(id), loc&lineMask)
		}
		t.mark(h, loc>>lineShift, loc&lineMask, 1, slot)
	}
}

// slotLevel is the level that a fact line alone gives a block.
func (t *Tree) slotLevel(f *factLine, off uint32) uint8 {
	if f.mask>>off&1 == 0 {
		return 0
	}
	for f.ends>>off&1 == 0 {
		off++
	}
	return metaLevel(t.factMeta(f, off))
}

// coverLevel is the level that spilled facts give a block.
func (t *Tree) coverLevel(h Holder, loc uint32) uint8 {
	c, ok := t.covers[uint64(h)<<32|uint64(loc)]
	if !ok {
		return 0
	}
	for tier, n := range c {
		if n > 0 {
			return uint8(Tiers - tier)
		}
	}
	return 0
}
