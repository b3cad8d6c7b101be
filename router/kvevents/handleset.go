package kvevents

import "math/rand/v2"

// handleSet is a small reusable hash set of handles. Its multiplier is random,
// so that no engine can aim for collisions; answers do not depend on it.
type handleSet struct {
	table []uint64 // the first size words are in use
	size  int      // a power of two
	mix   uint64   // odd
	zero  bool
}

// reset empties the set and makes room for n handles.
func (s *handleSet) reset(n int) {
	s.size = 16
	for s.size < 2*n {
		s.size *= 2
	}
	if len(s.table) < s.size {
		s.table = make([]uint64, s.size)
		s.mix = rand.Uint64() | 1
	} else {
		clear(s.table[:s.size])
	}
	s.zero = false
}

// add inserts h; false if it was there.
func (s *handleSet) add(h uint64) bool {
	if h == 0 {
		was := s.zero
		s.zero = true
		return !was
	}
	mask := s.size - 1
	for i := int(h*s.mix>>32) & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case 0:
			s.table[i] = h
			return true
		case h:
			return false
		}
	}
}
