package radix

const (
	// maxPart is the number of slots of a part; a full one splits. That is the
	// longest pause a table makes: about 5 us.
	maxPart = 2048
	// maxSplits bounds the directory at 2^20 parts.
	maxSplits = 20
)

// table is the writer's hash table: 32-bit hash -> 32-bit references, of which
// several may share a hash; the caller tells them apart by what they refer to.
//
// It is extendible hashing over parts of sorted linear probing: a slot is
// hash<<32|ref, slots of a part ascend and 0 is empty. So an unsuccessful
// search ends early, and growing or splitting is one sequential pass that
// looks at no reference. Hashes must be spread unevenly (see spread), so that
// parts do not all split at the same size: memory then grows smoothly, at
// about 13 bytes an entry.
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
	part  *part
	hash  uint32
	tied  bool // next has returned a reference
}

// seek starts a walk over the references of hash.
func (t *table) seek(hash uint32) cursor {
	if t.dir == nil {
		return cursor{hash: hash}
	}
	p := t.dir[hash>>(32-t.depth)]
	s := p.slots[p.home(hash):]
	for len(s) > 0 && s[0] != 0 && uint32(s[0]>>32) < hash {
		s = s[1:]
	}
	return cursor{slots: s, part: p, hash: hash}
}

// next returns the next reference, 0 at the end.
func (c *cursor) next() uint32 {
	if len(c.slots) == 0 || uint32(c.slots[0]>>32) != c.hash {
		return 0
	}
	ref := uint32(c.slots[0])
	// An empty slot looks like hash 0 and reads as the end.
	c.tied = c.tied || ref != 0
	c.slots = c.slots[1:]
	return ref
}

// insertAt is insert where a walk over the hash has ended, if the table has
// not changed since.
func (t *table) insertAt(c *cursor, ref uint32) {
	p := c.part
	if p == nil || c.tied || p.count >= p.limit() || c.hash == 0 {
		t.insert(c.hash, ref)
		return
	}
	t.count++
	if over := p.push(c.slots, uint64(c.hash)<<32|uint64(ref)); over != 0 {
		t.count--
		t.insert(uint32(over>>32), uint32(over))
	}
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
	t.count++
	for e := uint64(hash)<<32 | uint64(ref); e != 0; {
		hash = uint32(e >> 32)
		p := t.dir[hash>>(32-t.depth)]
		if p.count < p.limit() {
			e = p.insert(e)
		}
		if e != 0 {
			t.grow(p, hash)
		}
	}
}

// insert puts e in its place. It returns the entry for which the part has no
// room left, if any, which may be another one than e.
func (p *part) insert(e uint64) (over uint64) {
	s := p.slots[p.home(uint32(e>>32)):]
	for len(s) > 0 && s[0] < e && s[0] != 0 {
		s = s[1:]
	}
	return p.push(s, e)
}

// push puts e in front of s and moves what follows up to the next empty slot.
func (p *part) push(s []uint64, e uint64) (over uint64) {
	for i := range s {
		if s[i], e = e, s[i]; e == 0 {
			p.count++
			return 0
		}
	}
	return e
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
	if p.count == 0 {
		t.blocks.give(p.slots)
		p.slots, p.homes = nil, 0
	} else if p.count*4 < p.homes && len(p.slots) > minBlock {
		t.rebuild(p, uint32(len(p.slots))/2)
	}
	return true
}

// limit is how many entries a part takes. The first parts of a table are
// unevenly full, so they take less.
func (p *part) limit() uint32 {
	if p.depth < 3 {
		return p.homes - p.homes/4
	}
	return p.homes - p.homes*3/32
}

// grow makes room in p: a block of twice the size, or two parts.
func (t *table) grow(p *part, hash uint32) {
	if n := uint32(len(p.slots)); n < maxPart || p.depth >= maxSplits {
		t.rebuild(p, 2*n)
		return
	}
	t.split(p, hash)
}

// rebuild moves p's entries into a block of at least size slots.
func (t *table) rebuild(p *part, size uint32) {
	old := p.slots
	t.refill(p, old, size)
	t.blocks.give(old)
}

// refill lays entries out in a new block of at least size slots for p.
func (t *table) refill(p *part, entries []uint64, size uint32) {
	for !t.fill(p, entries, size) {
		size *= 2
	}
}

// fill reports false, and leaves no block, if the entries do not fit behind
// their homes.
func (t *table) fill(p *part, entries []uint64, size uint32) bool {
	p.slots = t.blocks.take(size)
	size = uint32(len(p.slots))
	p.homes = size - min(4+size/16, 64) // the rest is for entries pushed on
	slots, homes64, depth := p.slots, uint64(p.homes), p.depth
	at, count := 0, uint32(0)
	for _, e := range entries {
		if e == 0 {
			continue
		}
		at = max(at, int(uint64(uint32(e>>32)<<depth)*homes64>>32))
		if at >= len(slots) {
			t.blocks.give(slots)
			return false
		}
		slots[at] = e
		at++
		count++
	}
	p.count = count
	return true
}

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
	for i, e := range old {
		if uint32(e>>32)&bit != 0 {
			break
		}
		if e != 0 {
			cut = i + 1
		}
	}
	p.depth++
	q := &part{depth: p.depth}
	t.refill(p, old[:cut], maxPart)
	t.refill(q, old[cut:], maxPart)
	t.blocks.give(old)

	span := uint32(1) << (t.depth - p.depth)
	first := hash >> (32 - t.depth) &^ (2*span - 1)
	for i := range span {
		t.dir[first+span+i] = q
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

// spread makes hashes dense at one end, by 2^u - 1 in a cheap approximation:
// ranges of equal width then hold from one to two times as many entries, all
// ratios being equally frequent. It keeps their order.
func spread(hash uint32) uint32 {
	u := uint64(hash)
	return uint32(u * (0xA8000000 + u*0x58000000>>32) >> 32)
}
