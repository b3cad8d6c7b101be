package radix

import (
	"math/bits"
	"sync/atomic"
)

const (
	lineShift = 4
	lineLen   = 1 << lineShift // blocks of a line
	lineMask  = lineLen - 1
	// stretchLen lines hold one chain of 256 blocks side by side, so that a
	// reader who follows it walks through memory.
	stretchLen = 16
	allFree    = 1<<stretchLen - 1

	inWhole   = 1
	inPartial = 2

	noLine = uint32(0) // line 0 is never used

	wMixed = 1 << 40
)

// hotLine is what a reader of a whole line looks at.
//
// w is set id | n<<32 | wMixed: n published blocks, all with that set, or with
// the sets of that mixed record. 0 is a line that is not in use. last is the
// key of block n-1: if it equals the query's, chaining makes all n equal.
//
// Invariant I2: keys[0..n) do not change while the line lives, and n only
// grows; the order of stores is keys, mixed, last, w, heads.
type hotLine struct {
	w, last atomic.Uint64
}

// coldLine is what only the writer needs.
type coldLine struct {
	parent Key   // the key before keys[0]; 0 if unknown
	n      uint8 // keys, published or about to be
	empty  bool  // queued in Tree.emptied
}

// mixedLine is the sets of a line whose blocks differ.
type mixedLine [lineLen]atomic.Uint32

func wCount(w uint64) int { return int(w >> 32 & 31) }

func makeW(id uint32, n int) uint64 { return uint64(id) | uint64(n)<<32 }

// lines owns the line records and says where a new one goes.
//
// Invariant I1: every key is in exactly one place (line, off), and a key at
// off > 0 has its chain predecessor at off-1. So chains are entered at off 0
// only, and heads is all that readers need.
type lines struct {
	hot  slab[hotLine]
	keys slab[[lineLen]Key]
	cold slab[coldLine]

	free    []uint16 // per stretch, a bit per free line
	listed  []uint8  // per stretch, inWhole and inPartial
	whole   []uint32 // stretches that were wholly free; checked when popped
	partial []uint32 // stretches that had a free line; checked when popped
	spare   int      // free lines, the unused end included
	edge    uint32   // lines from here on were never used
	live    int
}

func (l *lines) init(mem *memory) {
	l.hot.mem, l.keys.mem, l.cold.mem = mem, mem, mem
	l.grow()
	l.free[0] &^= 1
	l.spare--
	l.edge = 1
}

// grow adds a chunk's share of stretches.
func (l *lines) grow() {
	const add = 256
	l.hot.extend(add * stretchLen)
	l.keys.extend(add * stretchLen)
	l.cold.extend(add * stretchLen)
	for range add {
		l.free = append(l.free, allFree)
		l.listed = append(l.listed, 0)
	}
	l.spare += add * stretchLen
}

func (l *lines) isFree(id uint32) bool {
	s := id / stretchLen
	return int(s) < len(l.free) && l.free[s]>>(id%stretchLen)&1 == 1
}

// take returns a line for a block that follows one on line before (noLine: a
// new chain), of a run that needs about need lines: the next line if it is
// free; else, in order, a free stretch, the untouched end, and any free line
// if more than a quarter of all used ones are free.
func (l *lines) take(before uint32, need int) uint32 {
	if before != noLine && l.isFree(before+1) {
		return l.claim(before + 1)
	}
	for n := len(l.whole); n > 0; n = len(l.whole) {
		s := l.whole[n-1]
		l.whole = l.whole[:n-1]
		l.listed[s] &^= inWhole
		l.list(&l.partial, inPartial, s)
		if l.free[s] == allFree {
			return l.claim(s * stretchLen)
		}
	}
	// Lines above the edge are free, but no holes.
	if holes := l.spare - (len(l.free)*stretchLen - int(l.edge)); holes*4 > int(l.edge) {
		for n := len(l.partial); n > 0; n = len(l.partial) {
			s := l.partial[n-1]
			if bit := bits.TrailingZeros16(l.free[s]); bit < stretchLen {
				return l.claim(s*stretchLen + uint32(bit))
			}
			l.partial = l.partial[:n-1]
			l.listed[s] &^= inPartial
		}
	}
	return l.claim(l.fresh(need))
}

// fresh moves the edge. A long run is likely to be followed by another, so it
// gets no more than it needs; a short one gets a stretch to grow in.
func (l *lines) fresh(need int) uint32 {
	at, end := l.edge, l.edge+1
	if need < 3 {
		at = (at + stretchLen - 1) &^ (stretchLen - 1)
		end = at + stretchLen
	}
	for int(end) > len(l.free)*stretchLen {
		l.grow()
	}
	if need < 3 {
		if l.edge%stretchLen != 0 {
			l.list(&l.partial, inPartial, l.edge/stretchLen)
		}
		l.list(&l.partial, inPartial, at/stretchLen)
		l.edge = end
	}
	return at
}

func (l *lines) list(to *[]uint32, flag uint8, stretch uint32) {
	if l.listed[stretch]&flag == 0 {
		l.listed[stretch] |= flag
		*to = append(*to, stretch)
	}
}

func (l *lines) claim(id uint32) uint32 {
	l.free[id/stretchLen] &^= 1 << (id % stretchLen)
	l.spare--
	l.live++
	l.edge = max(l.edge, id+1)
	return id
}

// give makes a line free, after the grace period.
func (l *lines) give(id uint32) {
	s := id / stretchLen
	l.list(&l.partial, inPartial, s)
	l.free[s] |= 1 << (id % stretchLen)
	l.spare++
	if l.free[s] == allFree {
		l.list(&l.whole, inWhole, s)
	}
}

// newLine makes a line whose first key is k.
func (t *Tree) newLine(before uint32, need int, parent, k Key) uint32 {
	id := t.lines.take(before, need)
	t.lines.keys.at(id)[0] = k
	*t.lines.cold.at(id) = coldLine{parent: parent, n: 1}
	return id
}

// dropEmptied frees the lines of which no block has a holder. It ends every
// writing call.
func (t *Tree) dropEmptied() {
	for _, id := range t.emptied {
		cold := t.lines.cold.at(id)
		cold.empty = false
		if w := t.lines.hot.at(id).w.Load(); uint32(w) == 0 && w&wMixed == 0 {
			t.dropLine(id, cold)
		}
	}
	t.emptied = t.emptied[:0]
}

// dropLine unlinks a line; readers inside may still finish on it.
func (t *Tree) dropLine(id uint32, cold *coldLine) {
	keys := t.lines.keys.at(id)[:cold.n]
	var hashes [lineLen]uint32
	for off, k := range keys {
		hashes[off] = t.hash(uint64(k))
	}
	t.sink += t.keys.gather(hashes[:len(keys)])
	t.heads.prefetch(hashes[0])
	for off, hash := range hashes[:len(keys)] {
		t.keys.remove(hash, id<<lineShift|uint32(off))
	}
	t.heads.remove(hashes[0], id)
	t.lines.hot.at(id).w.Store(0)
	cold.n = 0
	t.lines.live--
	t.retire(retiredLine, id)
}

// lookup finds the place of a key, 0 if it has none.
func (t *Tree) lookup(k Key, hash uint32) (loc uint32) {
	var c cursor
	return t.search(&c, k, hash)
}

// search is lookup that leaves c where in the table the key would be.
func (t *Tree) search(c *cursor, k Key, hash uint32) (loc uint32) {
	t.keys.seek(c, hash)
	for {
		loc = c.next()
		if loc == 0 || t.lines.keys.at(loc >> lineShift)[loc&lineMask] == k {
			return loc
		}
	}
}

// place finds or makes a place for every key of a run, whose parent lies at
// prev (0: unknown), and leaves them in t.locs. It never gives a key a second
// place (I1): every key that the walk does not meet is looked up, because it
// may be the head of an orphan.
func (t *Tree) place(prev uint32, parent Key, keys []Key) {
	t.locs = t.locs[:0]
	var hashes [batch]uint32
	from, to := 0, 0 // whose hashes these are
	var c cursor
	for j, k := range keys {
		loc := t.follow(prev, k)
		if loc == 0 {
			if j >= to {
				from, to = j, min(j+batch, len(keys))
				for i, next := range keys[from:to] {
					hashes[i] = t.hash(uint64(next))
				}
				if to > from+1 {
					t.sink += t.keys.gather(hashes[:to-from])
				}
			}
			hash := hashes[(j-from)%batch]
			if loc = t.search(&c, k, hash); loc == 0 {
				if loc = t.add(prev, parent, k, (len(keys)-j+lineLen-1)/lineLen); loc&lineMask == 0 {
					t.heads.prefetch(hash)
				}
				t.keys.insertAt(&c, loc)
			}
		}
		t.locs = append(t.locs, loc)
		prev, parent = loc, k
	}
}

// follow is the place of k if it comes right after prev in memory.
func (t *Tree) follow(prev uint32, k Key) (loc uint32) {
	if prev == 0 {
		return 0
	}
	line, off := prev>>lineShift, prev&lineMask
	if n := uint32(t.lines.cold.at(line).n); off+1 < n {
		if t.lines.keys.at(line)[off+1] == k {
			return prev + 1
		}
		return 0
	}
	if line++; line < t.lines.edge && t.lines.cold.at(line).n > 0 && t.lines.keys.at(line)[0] == k {
		return line << lineShift
	}
	return 0
}

// add gives a fresh key a place behind its predecessor, or on a line of its
// own.
func (t *Tree) add(prev uint32, parent, k Key, need int) (loc uint32) {
	line := prev >> lineShift
	if prev != 0 {
		cold := t.lines.cold.at(line)
		if off := prev&lineMask + 1; off == uint32(cold.n) && off < lineLen {
			t.lines.keys.at(line)[off] = k
			cold.n++
			return prev + 1
		}
	}
	return t.newLine(line, need, parent, k) << lineShift
}
