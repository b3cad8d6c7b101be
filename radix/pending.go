package radix

import (
	"math/bits"
	"unsafe"
)

// pending gathers one holder's new levels on one line, so that a run costs
// one set transition per line.
type pending struct {
	line   uint32 // noLine: nothing pending
	holder Holder
	mask   uint32
	level  uint8 // of all blocks of mask
	mixed  bool  // or else levels holds
	plain  bool  // not mixed, and the holder has no spilled facts
	levels [lineLen]uint8
}

// mark notes that the page of perPage blocks up to off has a new level from
// its fact line; spilled facts over the same blocks count too.
func (t *Tree) mark(h Holder, line, off uint32, perPage int, level uint8) {
	p := &t.pending
	if mask := pageMask(off, perPage); p.line == line && p.holder == h && p.plain && p.level == level {
		p.mask |= uint32(mask)
	} else {
		t.markMask(h, line, mask, level)
	}
}

// markMask is mark for any blocks of a line.
func (t *Tree) markMask(h Holder, line uint32, mask uint16, level uint8) {
	p := &t.pending
	if p.line != line || p.holder != h {
		t.flush()
		p.line, p.holder, p.mask, p.mixed, p.level = line, h, 0, false, level
	}
	p.mask |= uint32(mask)
	p.plain = !p.mixed && t.holders[h].spills == 0
	if p.plain && level == p.level {
		return
	}
	p.plain = false
	if !p.mixed {
		p.mixed = true
		for i := range p.levels {
			p.levels[i] = p.level
		}
	}
	for rest := mask; rest != 0; rest &= rest - 1 {
		i := uint32(bits.TrailingZeros16(rest))
		p.levels[i] = level
		if t.holders[h].spills > 0 {
			p.levels[i] = max(level, t.coverLevel(h, line<<lineShift|i))
		}
	}
}

// flush publishes what is pending.
func (t *Tree) flush() {
	p := &t.pending
	if p.line == noLine {
		return
	}
	hot := t.lines.hot.at(p.line)
	w := hot.w.Load()
	n, had := int(t.lines.cold.at(p.line).n), wCount(w)
	if w&wMixed == 0 && !p.mixed && p.mask == 1<<n-1 && (had == n || had == 0) {
		if id := t.sets.with(uint32(w), p.holder, p.level); id != uint32(w) || had == 0 {
			t.sets.ref(id, 1)
			t.publish(hot, w, makeW(id, n), n)
			t.unref(uint32(w), 1)
		}
	} else {
		t.flushMixed(hot, w, n, had)
	}
	p.line = noLine
}

// flushMixed handles lines whose blocks differ, now or before.
func (t *Tree) flushMixed(hot *hotLine, w uint64, n, had int) {
	p := &t.pending
	var old, ids [lineLen]uint32
	var rec *mixedLine
	if w&wMixed != 0 {
		rec = t.mixed.at(uint32(w))
	}
	same := true
	from, level, to := noSet, uint8(0), noSet // the last transition
	for i := range n {
		if i < had {
			if old[i] = uint32(w); rec != nil {
				old[i] = rec[i].Load()
			}
		}
		ids[i] = old[i]
		if p.mask>>i&1 == 1 {
			next := p.level
			if p.mixed {
				next = p.levels[i]
			}
			if old[i] != from || next != level {
				from, level = old[i], next
				to = t.sets.with(from, p.holder, level)
			}
			ids[i] = to
		}
		same = same && ids[i] == ids[0]
	}
	// References are taken before any is given back: a set just made has none.
	switch {
	case same:
		t.sets.ref(ids[0], 1)
		t.publish(hot, w, makeW(ids[0], n), n)
		if rec != nil {
			t.unrefAll(old[:had])
			t.retire(retiredMixed, uint32(w))
		} else if had > 0 {
			t.unref(uint32(w), 1)
		}
	case rec == nil:
		t.refAll(ids[:n])
		id := t.mixed.take()
		// No reader knows the record yet.
		copy((*[lineLen]uint32)(unsafe.Pointer(t.mixed.at(id)))[:n], ids[:n])
		t.publish(hot, w, makeW(id, n)|wMixed, n)
		if had > 0 {
			t.unref(uint32(w), 1)
		}
	default:
		for i, id := range ids[:n] {
			if i >= had || id != old[i] {
				t.sets.ref(id, 1)
				rec[i].Store(id)
			}
		}
		t.publish(hot, w, makeW(uint32(w), n)|wMixed, n)
		for i, id := range old[:had] {
			if id != ids[i] {
				t.unref(id, 1)
			}
		}
	}
}

// refAll counts a reference to every set of a line's blocks; equal ones mostly
// lie side by side.
func (t *Tree) refAll(ids []uint32) {
	for len(ids) > 0 {
		n := alike(ids)
		t.sets.ref(ids[0], n)
		ids = ids[n:]
	}
}

// unrefAll undoes refAll.
func (t *Tree) unrefAll(ids []uint32) {
	for len(ids) > 0 {
		n := alike(ids)
		t.unref(ids[0], n)
		ids = ids[n:]
	}
}

// alike counts the leading equal ids.
func alike(ids []uint32) (n uint32) {
	for n = 1; int(n) < len(ids) && ids[n] == ids[0]; n++ {
	}
	return n
}

// publish stores a line's new word in the order of I2.
func (t *Tree) publish(hot *hotLine, w, next uint64, n int) {
	if w == next {
		return
	}
	line := t.pending.line
	keys := t.lines.keys.at(line)
	if wCount(w) != n {
		hot.last.Store(uint64(keys[n-1]))
	}
	hot.w.Store(next)
	if w == 0 {
		t.heads.insert(t.hash(uint64(keys[0])), line)
	}
	if uint32(next) == 0 && next&wMixed == 0 {
		if cold := t.lines.cold.at(line); !cold.empty {
			cold.empty = true
			t.emptied = append(t.emptied, line)
		}
	}
}

func (t *Tree) unref(id, n uint32) {
	if t.sets.unref(id, n) {
		t.retire(retiredSet, id)
	}
}
