package radix

import (
	"math/bits"
	"slices"
)

const (
	setClasses  = 11 // up to 2^10 words: 65,536 holders
	setWords    = 1 << 13
	setDirLen   = 1 << 14
	classShift  = 28
	setIndex    = 1<<classShift - 1
	noSet       = ^uint32(0)
	levels      = Tiers + 1
	transitions = 1 << 12
)

// sets interns holder sets: per holder a level (0 none, then the best tier:
// 1 disk, 2 CPU, 3 GPU) as three cumulative bit planes. A set's id carries its
// width class in the top bits, so small sets stay small however many holders
// there are, and no set ever moves. Planes are immutable while the set lives.
//
// Invariant I5: refs is the number of uniform lines plus mixed slots that name
// the set; set 0 is empty, always there and not counted.
type sets struct {
	mem     *memory
	seed    uint64
	classes [setClasses]setClass
	intern  table
	count   int
	cache   []transition // direct mapped, transitions long
	scratch []uint64
}

type setClass struct {
	dir  *[setDirLen]*[setWords]uint64
	recs []setRec // writer only
	free []uint32
}

type setRec struct {
	hash uint64
	refs uint32
	gen  uint32 // changes when the id is freed, so that cached transitions end
}

type transition struct {
	from, to, holder, level uint32
	fromGen, toGen          uint32
}

func (s *sets) init(mem *memory, seed uint64, b *blocks) {
	s.mem, s.seed = mem, seed
	s.intern = newTable(b)
	s.cache = make([]transition, transitions)
	s.newID(0)
	s.rec(0).refs = 1
}

// planes returns the words of a set: gpu, gpu|cpu and any, width words each.
func (s *sets) planes(id uint32) (planes []uint64, width int) {
	c := id >> classShift
	at := (id & setIndex) << (2 + c)
	width = 1 << c
	chunk := s.classes[c].dir[at/setWords]
	at %= setWords
	return chunk[at : int(at)+3*width], width
}

func (s *sets) rec(id uint32) *setRec { return &s.classes[id>>classShift].recs[id&setIndex] }

// level is h's level in set id.
func (s *sets) level(id uint32, h Holder) uint8 {
	planes, width := s.planes(id)
	w, b := int(h>>6), h&63
	if w >= width {
		return 0
	}
	return uint8(planes[w]>>b&1 + planes[width+w]>>b&1 + planes[2*width+w]>>b&1)
}

// with is the set that differs from id only in h's level. The caller must
// count a reference to it before anything else happens.
func (s *sets) with(id uint32, h Holder, level uint8) uint32 {
	x := uint64(id)<<32 | uint64(h)<<2 | uint64(level)
	c := &s.cache[fold(x^s.seed, 0x9E3779B97F4A7C15)%transitions]
	if c.from == id && c.holder == uint32(h) && c.level == uint32(level) && c.toGen != 0 &&
		c.fromGen == s.rec(id).gen && c.toGen == s.rec(c.to).gen {
		return c.to
	}
	to := s.find(id, h, level)
	*c = transition{id, to, uint32(h), uint32(level), s.rec(id).gen, s.rec(to).gen}
	return to
}

// find builds the set in scratch and looks it up, or makes it.
func (s *sets) find(id uint32, h Holder, level uint8) uint32 {
	old := s.level(id, h)
	if old == level {
		return id
	}
	hash := s.rec(id).hash ^ s.mark(h, old) ^ s.mark(h, level)
	class := s.build(id, h, level)
	var c cursor
	s.intern.seek(&c, oddHash(hash))
	for {
		ref := c.next()
		if ref == 0 {
			break
		}
		if s.rec(ref).hash == hash && ref>>classShift == class {
			if planes, _ := s.planes(ref); slices.Equal(planes, s.scratch) {
				return ref
			}
		}
	}
	if isZero(s.scratch) {
		return 0
	}
	to := s.newID(class)
	r := s.rec(to)
	r.hash, r.refs = hash, 0
	planes, _ := s.planes(to)
	copy(planes, s.scratch)
	s.intern.insert(oddHash(hash), to)
	s.count++
	return to
}

// build writes the changed planes into scratch, as narrow as they fit.
func (s *sets) build(id uint32, h Holder, level uint8) (class uint32) {
	old, oldWidth := s.planes(id)
	width := max(oldWidth, 1<<bits.Len32(uint32(h)>>6))
	full := make3(s.scratch, width)
	for p := range 3 {
		copy(full[p*width:(p+1)*width], old[p*oldWidth:(p+1)*oldWidth])
		bit := uint64(1) << (h & 63)
		full[p*width+int(h>>6)] &^= bit
		if int(level) >= 3-p {
			full[p*width+int(h>>6)] |= bit
		}
	}
	top := width
	for top > 1 && full[2*width+top-1] == 0 {
		top--
	}
	class = uint32(bits.Len(uint(top - 1)))
	narrow := 1 << class
	for p := range 3 {
		copy(full[p*narrow:(p+1)*narrow], full[p*width:p*width+narrow])
	}
	s.scratch = full[:3*narrow]
	return class
}

// make3 returns 3*width zero words, in buf if it has room.
func make3(buf []uint64, width int) []uint64 {
	if cap(buf) < 3*width {
		return make([]uint64, 3*width)
	}
	buf = buf[:3*width]
	clear(buf)
	return buf
}

func isZero(words []uint64) bool {
	for _, w := range words {
		if w != 0 {
			return false
		}
	}
	return true
}

// mark is what holder h at a level contributes to a set's hash.
func (s *sets) mark(h Holder, level uint8) uint64 {
	if level == 0 {
		return 0
	}
	x := s.seed + (uint64(h)*levels+uint64(level))*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func (s *sets) newID(class uint32) uint32 {
	c := &s.classes[class]
	if n := len(c.free); n > 0 {
		id := c.free[n-1]
		c.free = c.free[:n-1]
		return id
	}
	index := uint32(len(c.recs))
	c.recs = append(c.recs, setRec{gen: 1})
	if c.dir == nil {
		c.dir = new([setDirLen]*[setWords]uint64)
	}
	if chunk := index << (2 + class) / setWords; c.dir[chunk] == nil {
		c.dir[chunk] = carve[[setWords]uint64](s.mem)
	}
	return class<<classShift | index
}

func (s *sets) ref(id uint32, n uint32) {
	if id != 0 {
		s.rec(id).refs += n
	}
}

// unref reports whether the set has died; the caller retires it.
func (s *sets) unref(id uint32, n uint32) (dead bool) {
	if id == 0 {
		return false
	}
	r := s.rec(id)
	r.refs -= n
	if r.refs > 0 {
		return false
	}
	s.intern.remove(oddHash(r.hash), id)
	s.count--
	if r.gen++; r.gen == 0 {
		r.gen = 1
	}
	return true
}

// give makes a dead set's id free, after the grace period.
func (s *sets) give(id uint32) {
	c := &s.classes[id>>classShift]
	c.free = append(c.free, id)
}
