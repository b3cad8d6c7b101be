package radix

import "math/bits"

// Run is a piece of one chain as Runs hands it out. Its slices are valid only
// during the call.
type Run struct {
	Parent  Key // key before Keys[0]; a placement hint, 0 if unknown
	PerPage int
	Keys    []Key // PerPage per handle
	Handles []uint64
	Metas   []Meta
}

// runBlocks bounds a Run that is joined from several lines.
const runBlocks = 256

type runBuffer struct {
	keys    []Key
	handles []uint64
	metas   []Meta
	run     Run
}

const spillCursor = 1 << 40

// Runs hands out about maxFacts facts of h (at most 271 more), starting at
// cursor, 0 being the beginning; next is 0 when all are done. Facts come in
// order of their lines' creation, so mostly chain by chain. It costs about
// 15 ns a fact. Enumeration is exact while h is not written between the steps;
// otherwise a cursor may name nothing any more and the enumeration ends early.
// fn must not call the tree.
func (t *Tree) Runs(h Holder, cursor uint64, maxFacts int, fn func(Run)) (next uint64) {
	hs := t.writable(h)
	left := max(maxFacts, 1)
	if cursor == 0 {
		cursor = uint64(hs.first)
	}
	for cursor != 0 && cursor < spillCursor {
		id := uint32(cursor)
		if id >= t.facts.n || t.facts.at(id).line == noLine || t.facts.at(id).holder != uint16(h) {
			return 0
		}
		if left <= 0 {
			t.emit(fn)
			return cursor
		}
		f := t.facts.at(id)
		left -= t.gather(f, fn)
		cursor = uint64(f.next)
	}
	t.emit(fn)
	id := uint32(cursor)
	if cursor < spillCursor {
		id = hs.firstSpill
	}
	for ; id != 0; id = t.spills[id].next {
		if left <= 0 {
			return spillCursor | uint64(id)
		}
		if int(id) >= len(t.spills) || t.spills[id].holder != uint16(h) {
			return 0
		}
		t.emitSpill(&t.spills[id], fn)
		left--
	}
	return 0
}

// gather adds a fact line's pages to the run in hand, or begins new ones.
func (t *Tree) gather(f *factLine, fn func(Run)) int {
	keys := t.lines.keys.at(f.line)
	perPage := int(f.perPage)
	b := &t.runs
	for ends := f.ends; ends != 0; ends &= ends - 1 {
		end := bits.TrailingZeros16(ends)
		first := end + 1 - perPage
		parent := t.lines.cold.at(f.line).parent
		if first > 0 {
			parent = keys[first-1]
		}
		if n := len(b.keys); n == 0 || b.run.PerPage != perPage || b.keys[n-1] != parent || n+perPage > runBlocks {
			t.emit(fn)
			b.run.Parent, b.run.PerPage = parent, perPage
		}
		b.keys = append(b.keys, keys[first:end+1]...)
		b.handles = append(b.handles, f.handles[end])
		b.metas = append(b.metas, t.factMeta(f, uint32(end)))
	}
	return bits.OnesCount16(f.ends)
}

// emit hands out the run in hand.
func (t *Tree) emit(fn func(Run)) {
	b := &t.runs
	if len(b.keys) == 0 {
		return
	}
	b.run.Keys, b.run.Handles, b.run.Metas = b.keys, b.handles, b.metas
	fn(b.run)
	b.keys, b.handles, b.metas = b.keys[:0], b.handles[:0], b.metas[:0]
}

func (t *Tree) emitSpill(s *spilled, fn func(Run)) {
	b := &t.runs
	for _, loc := range s.locs[:s.perPage] {
		b.keys = append(b.keys, t.keyAt(loc))
	}
	b.handles, b.metas = append(b.handles, s.handle), append(b.metas, s.meta)
	b.run.PerPage, b.run.Parent = int(s.perPage), t.parentOf(s.locs[0])
	t.emit(fn)
}

// parentOf is the key before the block at loc, 0 if unknown.
func (t *Tree) parentOf(loc uint32) Key {
	if loc&lineMask > 0 {
		return t.keyAt(loc - 1)
	}
	return t.lines.cold.at(loc >> lineShift).parent
}
