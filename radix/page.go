package radix

// Page returns all block keys of one fact, appended to dst, with the key
// before them as far as known (0 if not) and the fact's meta. router/index
// needs it to undo slots that were folded above a gap; any layout of the tree
// must offer it. O(blocks of the page).
func (t *Tree) Page(h Holder, handle uint64, dst []Key) (parent Key, keys []Key, meta Meta, ok bool) {
	ref := t.findFact(t.holder(h), handle)
	if ref == 0 {
		return 0, dst, 0, false
	}
	if ref&spillBit != 0 {
		s := &t.spills[ref&^spillBit]
		for _, loc := range s.locs[:s.perPage] {
			dst = append(dst, t.keyAt(loc))
		}
		return t.parentOf(s.locs[0]), dst, s.meta, true
	}
	f, off := t.facts.at(ref>>lineShift), ref&lineMask
	first := off + 1 - uint32(f.perPage)
	dst = append(dst, t.lines.keys.at(f.line)[first:off+1]...)
	return t.parentOf(f.line<<lineShift | first), dst, t.factMeta(f, off), true
}
