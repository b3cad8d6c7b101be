package radix

// pieceBlocks bounds the scratch of a run.
const pieceBlocks = 512

// Store tells that h holds a run of consecutive pages of one chain: len(keys)
// is perPage*len(handles), perPage is 1 to MaxPerPage, and parent is the key
// before keys[0] (0 if unknown; for a chain's first block its root). Parent and
// order must be true if given: a wrong one may hide a block from matches. A
// known handle with other keys moves to the new ones. A run of 256 new blocks
// costs about 60 us.
func (t *Tree) Store(h Holder, parent Key, perPage int, keys []Key, handles []uint64, update Update) {
	hs := t.writable(h)
	if perPage < 1 || perPage > MaxPerPage || len(keys) != perPage*len(handles) {
		panic("invariant: a run has 1 to 16 keys per handle")
	}
	prev := t.parent(parent)
	t.ahead(hs, prev, keys, handles)
	for pages := pieceBlocks / perPage; len(handles) > 0; {
		pages = min(pages, len(handles))
		t.place(prev, parent, keys[:pages*perPage])
		t.storePages(h, hs, perPage, keys, handles[:pages], update)
		prev, parent = t.locs[len(t.locs)-1], keys[pages*perPage-1]
		keys, handles = keys[pages*perPage:], handles[pages:]
	}
	t.ends[parent%endsLen] = runEnd{parent, prev}
	t.finish()
}

// ahead begins to load what the first blocks of a run will need of the tables
// of handles and keys, so that all of it misses together. Keys that continue a
// known line are not looked up.
func (t *Tree) ahead(hs *holder, prev uint32, keys []Key, handles []uint64) {
	if len(handles) == 1 && keys[0] == t.awaited {
		return // its caller did
	}
	for _, handle := range handles[:min(batch, len(handles))] {
		hs.byHandle.prefetch(t.hash(handle))
	}
	if len(keys) > 0 && t.follow(prev, keys[0]) == 0 {
		for _, k := range keys[:min(batch, len(keys))] {
			t.keys.prefetch(t.hash(uint64(k)))
		}
	}
}

const endsLen = 1024

// runEnd is where a run stored lately ended. It may be out of date.
type runEnd struct {
	key Key
	loc uint32
}

// parent finds the place of the key that a run hangs below, 0 if it has none:
// mostly the end of another run.
func (t *Tree) parent(k Key) (loc uint32) {
	if k == 0 {
		return 0
	}
	if end := &t.ends[k%endsLen]; end.key == k && end.loc != 0 {
		line, off := end.loc>>lineShift, end.loc&lineMask
		if off < uint32(t.lines.cold.at(line).n) && t.lines.keys.at(line)[off] == k {
			return end.loc
		}
	}
	return t.lookup(k, t.hash(uint64(k)))
}

func (t *Tree) storePages(h Holder, hs *holder, perPage int, keys []Key, handles []uint64, update Update) {
	line, id := noLine, uint32(0) // the fact line in hand
	var at cursor
	for i, handle := range handles {
		if i%batch == 0 {
			t.gatherPages(hs, handles[i:min(i+batch, len(handles))], t.locs[i*perPage:])
		}
		locs := t.locs[i*perPage : (i+1)*perPage]
		end := locs[perPage-1]
		hash := t.hashes[i%batch]
		ref := t.searchFact(&at, hs, handle, hash)
		if ref != 0 {
			if t.restore(h, hs, ref, end, perPage, update) {
				continue
			}
			line = noLine // its fact line may be gone
		}
		fact := Fact{Handle: handle, Key: keys[(i+1)*perPage-1], Blocks: perPage}
		if ref != 0 {
			fact = t.fact(ref)
		}
		m := update(fact)
		if ref != 0 {
			t.unlink(h, hs, ref)
		}
		if !m.Present() {
			t.remark(h, hs, locs)
			continue
		}
		hs.count++
		t.count++
		if end>>lineShift != line {
			line = end >> lineShift
			if id = t.factLineOf(hs, line); id == 0 && straight(locs) {
				id = t.addFactLine(h, hs, line)
			}
		}
		if id == 0 || !t.fits(id, locs) {
			t.addSpill(h, hs, handle, m, locs)
			line = noLine
			continue
		}
		f, off := t.facts.at(id), end&lineMask
		f.handles[off] = handle
		f.perPage = uint8(perPage)
		f.mask |= pageMask(off, perPage)
		f.ends |= 1 << off
		t.setFactMeta(f, off, m)
		if ref == 0 {
			hs.byHandle.insertAt(&at, id<<lineShift|off)
		} else {
			hs.byHandle.insert(hash, id<<lineShift|off)
		}
		t.mark(h, line, off, perPage, metaLevel(m))
	}
}

// gatherPages computes the hashes of at most batch handles, whose pages lie at
// locs, and touches what their facts will need.
func (t *Tree) gatherPages(hs *holder, handles []uint64, locs []uint32) {
	hashes := t.hashes[:len(handles)]
	for i, handle := range handles {
		hashes[i] = t.hash(handle)
	}
	if len(handles) < 2 {
		return
	}
	line := noLine
	for _, loc := range locs[:min(batch, len(locs))] {
		if next := loc >> lineShift; next != line {
			line = next
			t.sink += hs.byLine.touch(t.hash(uint64(line)))
		}
	}
	t.sink += hs.byHandle.gather(hashes)
}

// restore updates the fact at ref if its page stays where it is and stays
// present or goes; it reports false, without having called update, if the page
// moves.
func (t *Tree) restore(h Holder, hs *holder, ref, end uint32, perPage int, update Update) bool {
	if ref&spillBit != 0 {
		return false
	}
	f := t.facts.at(ref >> lineShift)
	if f.line<<lineShift|ref&lineMask != end || int(f.perPage) != perPage {
		return false
	}
	t.change(h, hs, ref, update(t.fact(ref)))
	return true
}

// change gives the fact at ref a new meta, or ends it.
func (t *Tree) change(h Holder, hs *holder, ref uint32, m Meta) {
	switch {
	case !m.Present():
		t.unlink(h, hs, ref)
	case ref&spillBit != 0:
		t.setSpillMeta(h, hs, ref&^spillBit, m)
	default:
		f, off := t.facts.at(ref>>lineShift), ref&lineMask
		t.setFactMeta(f, off, m)
		t.mark(h, f.line, off, int(f.perPage), metaLevel(m))
	}
}

// straight reports whether a page's blocks lie side by side on one line.
func straight(locs []uint32) bool {
	for i, loc := range locs {
		if loc != locs[0]+uint32(i) || loc>>lineShift != locs[0]>>lineShift {
			return false
		}
	}
	return true
}

// fits reports whether the fact line has room for a page there.
func (t *Tree) fits(id uint32, locs []uint32) bool {
	f := t.facts.at(id)
	if f.mask != 0 && int(f.perPage) != len(locs) || !straight(locs) {
		return false
	}
	return f.mask&pageMask(locs[len(locs)-1]&lineMask, len(locs)) == 0
}

// remark marks blocks with the level their facts give them now, so that every
// new key gets published.
func (t *Tree) remark(h Holder, hs *holder, locs []uint32) {
	for _, loc := range locs {
		level := uint8(0)
		if id := t.factLineOf(hs, loc>>lineShift); id != 0 {
			level = t.slotLevel(t.facts.at(id), loc&lineMask)
		}
		t.mark(h, loc>>lineShift, loc&lineMask, 1, level)
	}
}
