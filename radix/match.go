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
	words   []matchWord // 64 holders each
	depth   [][Classes]uint32
	holders []Holder
	listed  bool // holders is made of words
}

// matchWord is the state of 64 holders. The classes are cumulative, so
// alive[ClassGPU] is a subset of alive[ClassCPU], and that of alive[ClassAny].
type matchWord struct {
	seen  uint64 // depth is valid
	alive [Classes]uint64
}

// Holders lists, ascending, the holders with at least the first block. The
// slice is valid until the Match is used again. O(holders) the first time.
func (m *Match) Holders() []Holder {
	if !m.listed {
		m.listed = true
		for i := range m.words {
			for word := m.words[i].seen; word != 0; word &= word - 1 {
				m.holders = append(m.holders, Holder(i*64+bits.TrailingZeros64(word)))
			}
		}
	}
	return m.holders
}

// Depth is the number of consecutive blocks, from the first, that h holds in
// class c. O(1).
func (m *Match) Depth(c Class, h Holder) int {
	if w := int(h >> 6); w >= len(m.words) || m.words[w].seen>>(h&63)&1 == 0 {
		return 0
	}
	return int(m.depth[h][c])
}

// Depths is Depth in all classes at once. O(1).
func (m *Match) Depths(h Holder) (gpu, cpu, any int) {
	if w := int(h >> 6); w >= len(m.words) || m.words[w].seen>>(h&63)&1 == 0 {
		return 0, 0, 0
	}
	d := &m.depth[h]
	return int(d[ClassGPU]), int(d[ClassCPU]), int(d[ClassAny])
}

// reset makes room for words*64 holders and forgets the last answer.
func (m *Match) reset(words int) {
	m.holders, m.listed = m.holders[:0], false
	if cap(m.words) < words {
		m.depth = make([][Classes]uint32, words*64)
		m.words = make([]matchWord, words)
		return
	}
	m.words = m.words[:words] // fewer than before once holders went
	clear(m.words)
}

// begin takes the first block's holders. Their depths are written when they
// drop out; only classes they are not in from the start are 0 at once.
func (w *matchWord) begin(set *[Classes]uint64, depth [][Classes]uint32) {
	w.seen, w.alive = set[ClassAny], *set
	for rest := set[ClassAny] &^ set[ClassGPU]; rest != 0; rest &= rest - 1 {
		depth[bits.TrailingZeros64(rest)] = [Classes]uint32{}
	}
}

// keep drops the holders that are not in set, pos being their depth.
func (w *matchWord) keep(set *[Classes]uint64, depth [][Classes]uint32, pos uint32) {
	// Mostly a holder drops out of all classes at once.
	all := w.alive[ClassGPU] &^ set[ClassAny]
	for rest := all; rest != 0; rest &= rest - 1 {
		depth[bits.TrailingZeros64(rest)] = [Classes]uint32{pos, pos, pos}
	}
	for c := range set {
		for rest := w.alive[c] &^ set[c] &^ all; rest != 0; rest &= rest - 1 {
			depth[bits.TrailingZeros64(rest)][c] = pos
		}
		w.alive[c] &= set[c]
	}
}
