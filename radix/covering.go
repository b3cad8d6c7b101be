package radix

// Covering returns the page of h that covers block k, and how many do: where
// several do, the one in the lines is returned if there is one, and ok with an
// empty fact if all lie elsewhere. It
// is a writer's method: O(1), three dependent reads.
func (t *Tree) Covering(h Holder, k Key) (f Fact, pages int, ok bool) {
	hs := t.holder(h)
	loc := t.lookup(k, t.hash(uint64(k)))
	if loc == 0 {
		return Fact{}, 0, false
	}
	for _, n := range t.covers[uint64(h)<<32|uint64(loc)] {
		pages += int(n)
	}
	id := t.factLineOf(hs, loc>>lineShift)
	if id == 0 || t.facts.at(id).mask>>(loc&lineMask)&1 == 0 {
		return Fact{}, pages, pages > 0
	}
	off := loc & lineMask
	for t.facts.at(id).ends>>off&1 == 0 {
		off++
	}
	return t.fact(id<<lineShift | off), pages + 1, true
}
