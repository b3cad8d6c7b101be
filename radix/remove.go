package radix

import "math/bits"

// Remove updates the facts of h with these handles, in order; unknown ones are
// ignored, and a repeated one is updated again if it is still there.
func (t *Tree) Remove(h Holder, handles []uint64, update Update) {
	hs := t.writable(h)
	for len(handles) > 0 {
		n := min(batch, len(handles))
		t.removeBatch(h, hs, handles[:n], update)
		handles = handles[n:]
	}
	t.finish()
}

func (t *Tree) removeBatch(h Holder, hs *holder, handles []uint64, update Update) {
	hashes := t.hashes[:len(handles)]
	for i, handle := range handles {
		hashes[i] = t.hash(handle)
	}
	var c cursor
	if len(handles) > 1 {
		t.sink += hs.byHandle.gather(hashes)
		for _, hash := range hashes {
			hs.byHandle.seek(&c, hash)
			if ref := c.next(); ref != 0 && ref&spillBit == 0 {
				t.sink += t.facts.at(ref >> lineShift).handles[ref&lineMask]
			}
		}
	}
	for i, handle := range handles {
		t.refs[i] = t.searchFact(&c, hs, handle, hashes[i])
	}
	for i, handle := range handles {
		// An earlier removal of the same handle leaves nothing at its place.
		if ref := t.refs[i]; ref != 0 && t.holds(ref, handle) {
			t.change(h, hs, ref, update(t.fact(ref)))
		}
	}
}

// Clear forgets about maxFacts facts of h and reports whether none is left. It
// costs about 50 ns a fact. From its first step until it reports true nothing
// else may be done with h; matches lose the facts step by step.
func (t *Tree) Clear(h Holder, maxFacts int) (done bool) {
	hs := t.holder(h)
	if !hs.clearing {
		hs.clearing = true
		hs.byHandle.drop()
		hs.byLine.drop()
	}
	for cleared := 0; hs.count > 0 && cleared < max(maxFacts, 1); {
		if hs.first != 0 {
			cleared += t.clearLine(h, hs, hs.first)
			continue
		}
		t.unlinkSpill(h, hs, spillBit|hs.firstSpill)
		hs.count--
		t.count--
		cleared++
	}
	t.finish()
	hs.clearing = hs.count > 0
	return !hs.clearing
}

// clearLine forgets one fact line and returns its number of facts.
func (t *Tree) clearLine(h Holder, hs *holder, id uint32) int {
	f := t.facts.at(id)
	n := bits.OnesCount16(f.ends)
	t.markMask(h, f.line, f.mask, 0)
	hs.count -= n
	t.count -= n
	f.mask, f.ends = 0, 0
	t.dropFactLine(hs, id)
	return n
}
