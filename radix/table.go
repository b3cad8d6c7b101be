package radix

import "math/bits"

const (
	// maxPart is the largest number of slots of a part; a fuller one splits.
	// Rebuilding it is the longest pause a table makes: about 10 us.
	maxPart = 4096
	// maxSplits bounds the directory at 2^20 parts.
	maxSplits = 20
)

// table is the writer's hash table: 32-bit hash -> 32-bit references, of which
// several may share a hash; the caller tells them apart by what they refer to.
//
// It is extendible hashing over parts of sorted linear probing: a slot is
// hash<<32|ref, slots of a part ascend and 0 is empty. So an unsuccessful
// search ends early, and growing or splitting is one sequential pass that
// looks at no reference.
//
// Invariant I8: inside a part entries ascend, no entry lies before its home
// slot, and no empty slot lies between an entry and its home.
type table struct {
	blocks *blocks
	dir    []*part // 2^depth, by the hash's top bits
	depth  uint8
	count  int
}

type part struct {
	slots []uint64
	homes uint32 // slots that can be a home; the rest is room to spill
	count uint32
	depth uint8
}

func (p *part) home(hash uint32) int {
	return int(uint64(hash<<p.depth) * uint64(p.homes) >> 32)
}

// cursor walks the references that share a hash.
type cursor struct {
	slots []uint64
	hash  uint32
}

// seek starts a walk over the references of hash.
func (t *table) seek(hash uint32) cursor {
	if t.dir == nil {
		return cursor{}
	}
	p := t.dir[hash>>(32-t.depth)]
	s := p.slots[p.home(hash):]
	for len(s) > 0 && s[0] != 0 && uint32(s[0]>>32) < hash {
		s = s[1:]
	}
	return cursor{s, hash}
}

// next returns the next reference, 0 at the end.
func (c *cursor) next() uint32 {
	if len(c.slots) == 0 || uint32(c.slots[0]>>32) != c.hash {
		return 0
	}
	ref := uint32(c.slots[0])
	c.slots = c.slots[1:]
	return ref
}

// touch loads the home slot of hash, so that the misses of several searches
// overlap; the result only keeps the compiler from dropping the load.
func (t *table) touch(hash uint32) uint64 {
	if t.dir == nil {
		return 0
	}
	p := t.dir[hash>>(32-t.depth)]
	if len(p.slots) == 0 {
		return 0
	}
	return p.slots[p.home(hash)]
}

// insert adds one reference, which is never 0.
func (t *table) insert(hash, ref uint32) {
	if t.dir == nil {
		t.dir = []*part{{}}
	}
	e := uint64(hash)<<32 | uint64(ref)
	for {
		p := t.dir[hash>>(32-t.depth)]
		if p.count < p.homes-p.homes/6 && p.insert(e) {
			t.count++
			return
		}
		t.grow(p, hash)
	}
}

func (p *part) insert(e uint64) bool {
	s := p.slots
	i := p.home(uint32(e >> 32))
	for i < len(s) && s[i] != 0 && s[i] < e {
		i++
	}
	j := i
	for j < len(s) && s[j] != 0 {
		j++
	}
	if j == len(s) {
		return false
	}
	copy(s[i+1:j+1], s[i:j])
	s[i] = e
	p.count++
	return true
}

// remove takes one reference out and reports whether it was there.
func (t *table) remove(hash, ref uint32) bool {
	if t.dir == nil {
		return false
	}
	p := t.dir[hash>>(32-t.depth)]
	e := uint64(hash)<<32 | uint64(ref)
	s := p.slots
	i := p.home(hash)
	for i < len(s) && s[i] != 0 && s[i] < e {
		i++
	}
	if i == len(s) || s[i] != e {
		return false
	}
	j := i + 1
	for j < len(s) && s[j] != 0 && p.home(uint32(s[j]>>32)) < j {
		j++
	}
	copy(s[i:j-1], s[i+1:j])
	s[j-1] = 0
	p.count--
	t.count--
	if p.count*4 < p.homes && len(p.slots) > 32 || p.count == 0 {
		t.rebuild(p, p.count+p.count/2)
	}
	return true
}

// grow makes room in p: a larger block, or two parts.
func (t *table) grow(p *part, hash uint32) {
	want := p.count + p.count/3 + 4
	if want <= maxPart || p.depth >= maxSplits {
		t.rebuild(p, max(want, p.homes+p.homes/8+4))
		return
	}
	t.split(p, hash)
}

// rebuild moves p's entries into a block of at least homes home slots.
func (t *table) rebuild(p *part, homes uint32) {
	old := p.slots
	for !t.fill(p, old, homes) {
		homes += homes/4 + 8
	}
	t.blocks.give(old)
}

// fill lays entries out in a new block for p. It reports false, and leaves no
// block, if they do not fit behind their homes.
func (t *table) fill(p *part, entries []uint64, homes uint32) bool {
	if homes == 0 {
		p.slots, p.homes, p.count = nil, 0, 0
		return true
	}
	p.slots = t.blocks.take(homes + spill(homes))
	p.homes = uint32(len(p.slots)) - spill(uint32(len(p.slots)))
	p.count = 0
	at := 0
	for _, e := range entries {
		if e == 0 {
			continue
		}
		at = max(at, p.home(uint32(e>>32)))
		if at >= len(p.slots) {
			t.blocks.give(p.slots)
			return false
		}
		p.slots[at] = e
		at++
		p.count++
	}
	return true
}

// spill is the room behind the last home for entries pushed on.
func spill(slots uint32) uint32 { return min(4+slots/16, 64) }

// split makes two parts of p by its next hash bit.
func (t *table) split(p *part, hash uint32) {
	if p.depth == t.depth {
		dir := make([]*part, 2*len(t.dir))
		for i := range dir {
			dir[i] = t.dir[i/2]
		}
		t.dir = dir
		t.depth++
	}
	old := p.slots
	bit := uint32(1) << (31 - p.depth)
	cut := 0
	var low uint32
	for i, e := range old {
		if e == 0 {
			continue
		}
		if uint32(e>>32)&bit != 0 {
			break
		}
		cut = i + 1
		low++
	}
	high := p.count - low
	p.depth++
	q := &part{depth: p.depth}
	t.fillSure(p, old[:cut], low)
	t.fillSure(q, old[cut:], high)
	t.blocks.give(old)

	span := uint32(1) << (t.depth - p.depth)
	first := hash >> (32 - t.depth) &^ (2*span - 1)
	for i := range span {
		t.dir[first+span+i] = q
	}
}

func (t *table) fillSure(p *part, entries []uint64, count uint32) {
	homes := count + count/3 + 4
	for !t.fill(p, entries, homes) {
		homes += homes/4 + 8
	}
}

// drop gives all memory back; the table is empty and usable.
func (t *table) drop() {
	var last *part
	for _, p := range t.dir {
		if p != last {
			t.blocks.give(p.slots)
		}
		last = p
	}
	*t = table{blocks: t.blocks}
}

// blocks hands out runs of slots in size classes, four per octave.
type blocks struct {
	mem  *memory
	rest []uint64
	free [128][][]uint64
	used int64 // slots handed out
}

const blockChunk = 1 << 16 // slots

// classOf is the smallest class of at least n slots, and its size.
func classOf(n uint32) (class int, size uint32) {
	if n <= 8 {
		return 0, 8
	}
	shift := bits.Len32(n-1) - 3
	quarters := (n-1)>>shift + 1 // 5..8
	return 1 + (shift-1)*4 + int(quarters-5), quarters << shift
}

// take returns a zeroed block of at least n slots.
func (b *blocks) take(n uint32) []uint64 {
	class, size := classOf(n)
	b.used += int64(size)
	if list := b.free[class]; len(list) > 0 {
		s := list[len(list)-1]
		b.free[class] = list[:len(list)-1]
		clear(s)
		return s
	}
	if size > blockChunk/8 {
		return make([]uint64, size)
	}
	if len(b.rest) < int(size) {
		b.rest = carve[[blockChunk]uint64](b.mem)[:]
	}
	s := b.rest[:size:size]
	b.rest = b.rest[size:]
	return s
}

func (b *blocks) give(s []uint64) {
	if len(s) == 0 {
		return
	}
	b.used -= int64(len(s))
	if len(s) > blockChunk/8 {
		return
	}
	class, _ := classOf(uint32(len(s)))
	b.free[class] = append(b.free[class], s)
}
