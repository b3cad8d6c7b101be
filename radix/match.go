package radix

import "math/bits"

// Class is a set of tiers that counts as a hit; classes are cumulative.
type Class uint8

// The classes.
const (
	ClassGPU Class = iota // tier 0
	ClassCPU              // tiers 0 and 1
	ClassAny              // all tiers
	Classes  = 3
)

// Match is the answer to one query: for every holder, how many blocks of the
// query it holds without a gap from the first one on, per class. The zero
// value is ready for use and is meant to be reused: after a few queries
// nothing is allocated. It is not safe for concurrent use.
type Match struct {
	seen    []uint64 // bit set: depth of that holder is valid
	depth   [][Classes]uint32
	alive   [Classes][]uint64
	holders []Holder
}

// Holders lists, ascending, the holders with at least the first block. The
// slice is valid until the Match is used again.
func (m *Match) Holders() []Holder { return m.holders }

// Depth is the number of consecutive blocks, from the first, that h holds in
// class c. O(1).
func (m *Match) Depth(c Class, h Holder) int {
	if w := int(h >> 6); w >= len(m.seen) || m.seen[w]>>(h&63)&1 == 0 {
		return 0
	}
	return int(m.depth[h][c])
}

// Deepest is the largest depth of any holder in class c; O(holders).
func (m *Match) Deepest(c Class) int {
	best := 0
	for _, h := range m.holders {
		best = max(best, m.Depth(c, h))
	}
	return best
}

// reset makes room for words*64 holders and forgets the last answer.
func (m *Match) reset(words int) {
	m.holders = m.holders[:0]
	if len(m.depth) < words*64 {
		m.depth = make([][Classes]uint32, words*64)
		m.seen = make([]uint64, words)
		for c := range m.alive {
			m.alive[c] = make([]uint64, words)
		}
		return
	}
	clear(m.seen)
}

// list fills holders from seen.
func (m *Match) list() {
	for w, word := range m.seen {
		for ; word != 0; word &= word - 1 {
			m.holders = append(m.holders, Holder(w*64+bits.TrailingZeros64(word)))
		}
	}
}
