package bpe

import (
	"math/bits"
	"unicode/utf8"
)

// none is no token.
const none = ^uint32(0)

// model turns a piece into tokens: the whole piece, if it is one, else its
// characters (or bytes), merged.
type model struct {
	// words is every token that a piece of its text becomes: all of them if
	// merges are ignored, else those that merging gives.
	words map[string]uint32
	pairs pairTable

	ofByte       *[256]uint32 // a vocabulary of bytes, else nil
	ofRune       runeTable
	fallback     *[256]uint32 // tokens of the bytes of unknown characters, or nil
	unknown      uint32
	fuseUnknown  bool
	ignoreMerges bool

	// joints tells which two characters a merge may join; nil if pieces are not
	// cut. See seam.
	joints *jointSet
}

// merge is what a pair of tokens becomes, and how early.
type merge struct{ left, right, rank, id uint32 }

// pairTable is the merges by pair: an open table, for the built-in map takes
// twice its time and memory.
type pairTable struct {
	slots []merge
	free  int // pairs that still have room
}

// longestProbe bounds how far a pair lies from its place, so that no file makes
// every look-up slow.
const longestProbe = 512

// newPairTable returns a table with room for n pairs.
func newPairTable(n int) pairTable {
	t := pairTable{slots: make([]merge, n+n/2+1), free: n}
	for i := range t.slots {
		t.slots[i].rank = none
	}
	return t
}

func (t *pairTable) place(left, right uint32) int {
	h := (uint64(left)<<32 | uint64(right)) * 0x9e3779b97f4a7c15
	h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
	i, _ := bits.Mul64(h, uint64(len(t.slots)))
	return int(i)
}

// put adds m or replaces the merge of its pair; false if it lies too far away or
// the table is full.
func (t *pairTable) put(m merge) bool {
	i := t.place(m.left, m.right)
	for range longestProbe {
		s := &t.slots[i]
		if s.rank == none {
			if t.free--; t.free < 0 {
				return false
			}
			*s = m
			return true
		}
		if s.left == m.left && s.right == m.right {
			*s = m
			return true
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	return false
}

// get returns rank and token of a pair; none, none if it does not merge.
func (t *pairTable) get(left, right uint32) (rank, id uint32) {
	i := t.place(left, right)
	for {
		s := &t.slots[i]
		if s.rank == none {
			return none, none
		}
		if s.left == left && s.right == right {
			return s.rank, s.id
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// runeTable is the tokens of single characters, in pages.
type runeTable struct {
	pages [(utf8.MaxRune + 1) / 256]*[256]uint32
}

func (t *runeTable) put(r rune, id uint32) {
	p := &t.pages[r>>8]
	if *p == nil {
		*p = new([256]uint32)
		for i := range *p {
			(*p)[i] = none
		}
	}
	(*p)[r&0xff] = id
}

func (t *runeTable) get(r rune) uint32 {
	if p := t.pages[r>>8]; p != nil {
		return p[r&0xff]
	}
	return none
}

// jointSet holds pairs of characters, and by chance some more.
type jointSet [1 << 16]uint64

func (j *jointSet) bit(a, b rune) (int, uint64) {
	h := (uint64(a)<<32 | uint64(b)) * 0x9e3779b97f4a7c15
	return int(h >> 48), 1 << (h >> 42 & 63)
}

func (j *jointSet) add(a, b rune) {
	i, bit := j.bit(a, b)
	j[i] |= bit
}

func (j *jointSet) has(a, b rune) bool {
	i, bit := j.bit(a, b)
	return j[i]&bit != 0
}

// seam returns the end of the first part of s that can be merged by itself. A
// merge joins a left token that ends with some character and a right one that
// begins with some; if no merge has two neighbours of s, nothing ever reaches
// over them, so both sides are merged alone. Without this the whole text is one
// piece (Gemma), and no part of it a word. Unknown characters are left out of
// it: their tokens' texts are not theirs.
func (m *model) seam(s string) int {
	if m.joints == nil {
		return len(s)
	}
	before, known := rune(0), false
	for i, r := range s {
		is := m.ofRune.get(r) != none
		if known && is && !m.joints.has(before, r) {
			return i
		}
		before, known = r, is
	}
	return len(s)
}

// tokenize appends the tokens of a piece.
func (m *model) tokenize(dst []uint32, sc *scratch, s string) []uint32 {
	for s != "" {
		end := m.seam(s)
		dst = sc.cache.tokenize(m, dst, sc, s[:end])
		s = s[end:]
	}
	return dst
}

// tokenizePart appends the tokens of a part between seams.
func (m *model) tokenizePart(dst []uint32, sc *scratch, s string) []uint32 {
	if id, ok := m.words[s]; ok {
		return append(dst, id)
	}
	sc.ids = m.begin(sc.ids[:0], s)
	return m.merge(dst, sc)
}

// begin appends the tokens of the characters (or bytes) of s, before any merge.
func (m *model) begin(ids []uint32, s string) []uint32 {
	if m.ofByte != nil {
		pending := none
		for i := range len(s) {
			ids, pending = m.know(ids, m.ofByte[s[i]], pending)
		}
		return m.end(ids, pending)
	}
	pending := none
	for i, r := range s {
		id := m.ofRune.get(r)
		if id == none && m.fallback != nil {
			// Does not end a run of unknown characters, as in tokenizers.
			for _, b := range []byte(s[i : i+utf8.RuneLen(r)]) {
				ids = append(ids, m.fallback[b])
			}
			continue
		}
		ids, pending = m.know(ids, id, pending)
	}
	return m.end(ids, pending)
}

// know appends the token of a character, or leaves the unknown token pending.
func (m *model) know(ids []uint32, id, pending uint32) ([]uint32, uint32) {
	if id != none {
		return append(m.end(ids, pending), id), none
	}
	if !m.fuseUnknown {
		ids = m.end(ids, pending)
	}
	return ids, m.unknown
}

func (m *model) end(ids []uint32, pending uint32) []uint32 {
	if pending != none {
		ids = append(ids, pending)
	}
	return ids
}
