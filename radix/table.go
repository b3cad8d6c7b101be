package radix

import "unsafe"

const (
	minLog = 1  // log2 of the buckets of a small part
	maxLog = 10 // of a large one; when it is full it splits
	// maxSplits bounds the directory at 2^20 parts.
	maxSplits = 20
)

// table is the writer's hash table: odd 32-bit hash -> 32-bit references, of
// which several may share a hash; the caller tells them apart by what they
// refer to.
//
// It is extendible hashing: the top bits of a hash name a part in a directory,
// its low bits a bucket of one cache line there, and a full bucket flows over
// into the next. So a search is one miss, insertion moves nothing, and a part
// splits in one pass that looks at no reference and leaves half of the entries
// where they are: some 50 us, the longest pause a table makes. Hashes must be
// spread unevenly (see spread), so that parts do not all split at the same
// size: memory then grows smoothly, at about 13 bytes an entry.
//
// Invariant I8: no bucket with an empty slot lies between an entry and its
// home, going round at the end of the part.
type table struct {
	blocks *blocks
	dir    []part // 2^(32-shift), by the hash's top bits
	shift  uint8
	infos  []partInfo // by part.id
	count  int
	ready  int      // directory entries that prepare is done with
	strays []uint64 // scratch of split
}

// part is what a search needs of a part; neighbours in the directory may name
// the same.
type part struct {
	first *bucket
	mask  uint32 // buckets - 1
	id    uint32
}

// partInfo is what changes with every entry.
type partInfo struct {
	room  uint32 // entries it still takes
	depth uint8
	log   uint8 // of the buckets
	hint  uint8 // log to begin with
}

// vacant stands for the buckets of a part that has none. It takes no entries.
var vacant bucket

func newTable(b *blocks) table {
	return table{blocks: b, dir: []part{{first: &vacant}}, shift: 32, infos: make([]partInfo, 1)}
}

func (t *table) part(hash uint32) *part { return &t.dir[uint64(hash)>>(t.shift&63)] }

func (p *part) bucket(i uint32) *bucket {
	return (*bucket)(unsafe.Add(unsafe.Pointer(p.first), uintptr(i)*unsafe.Sizeof(bucket{})))
}

func (p *part) home(hash uint32) uint32 { return hash >> 1 & p.mask }

// cursor walks the references that share a hash. While left is empty and
// nothing was found, b is the bucket where the hash's next entry goes.
type cursor struct {
	part  *part
	b     *bucket
	left  slotMask // of b
	at    uint32   // index of b
	hash  uint32
	found bool // next has returned a reference
}

// seek starts the walk c over the references of hash. It fills c where it lies:
// a cursor is too long for registers, and a copy of what was just written waits
// for every store before it.
func (t *table) seek(c *cursor, hash uint32) {
	p := t.part(hash)
	at := p.home(hash)
	b := p.bucket(at)
	left := b.match(uint64(hash) * hashOnes)
	c.part, c.b, c.left, c.at, c.hash, c.found = p, b, left, at, hash, false
	if left == 0 && b.room() == 0 {
		c.flow()
	}
}

// flow goes on to the next bucket that has the hash or room for it.
func (c *cursor) flow() {
	for {
		c.at = (c.at + 1) & c.part.mask
		c.b = c.part.bucket(c.at)
		if c.left = c.b.match(uint64(c.hash) * hashOnes); c.left != 0 || c.b.room() != 0 {
			return
		}
	}
}

// next returns the next reference, 0 at the end.
func (c *cursor) next() uint32 {
	if c.left == 0 && !c.found {
		return 0
	}
	return c.more()
}

func (c *cursor) more() uint32 {
	for {
		for c.left != 0 {
			ref := c.b.refs[c.left.first()]
			c.left &= c.left - 1
			if ref != 0 {
				c.found = true
				return ref
			}
		}
		if c.b.room() != 0 {
			return 0
		}
		c.flow()
	}
}

// touch loads the home bucket of hash, so that the misses of several searches
// overlap; the result only keeps the compiler from dropping the load.
func (t *table) touch(hash uint32) uint64 {
	p := t.part(hash)
	return p.bucket(p.home(hash)).hashes[0]
}

// prefetch begins to load the home bucket of hash.
func (t *table) prefetch(hash uint32) {
	p := t.part(hash)
	prefetch(unsafe.Pointer(p.bucket(p.home(hash))))
}

// gather touches what searches for at most batch hashes will look at. First
// the home buckets, with little else in between so that many loads are under
// way at once; then, where they are full, those they flow over into, and where
// these are full too, the next.
func (t *table) gather(hashes []uint32) (sink uint64) {
	var at [batch]*bucket
	var full [batch]uint8
	n := min(len(hashes), batch)
	for i, hash := range hashes[:n] {
		p := t.part(hash)
		at[i] = p.bucket(p.home(hash))
	}
	for _, b := range at[:n] {
		sink += b.hashes[0]
	}
	over := 0
	for i, hash := range hashes[:n] {
		if at[i].room() == 0 {
			p := t.part(hash)
			at[i] = p.bucket((p.home(hash) + 1) & p.mask)
			sink += at[i].hashes[0]
			full[over&(batch-1)] = uint8(i)
			over++
		}
	}
	for _, i := range full[:min(over, batch)] {
		if at[i&(batch-1)].room() == 0 {
			p := t.part(hashes[i])
			prefetch(unsafe.Pointer(p.bucket((p.home(hashes[i]) + 2) & p.mask)))
		}
	}
	return sink
}

// insertAt is insert where a walk over the hash has ended, if the table has
// not changed since.
func (t *table) insertAt(c *cursor, ref uint32) {
	info := &t.infos[c.part.id]
	if info.room == 0 {
		t.insert(c.hash, ref)
		return
	}
	info.room--
	t.count++
	c.b.set(c.b.room().first(), c.hash, ref)
}

// insert adds one reference, which is never 0.
func (t *table) insert(hash, ref uint32) {
	p := t.part(hash)
	for t.infos[p.id].room == 0 {
		t.grow(hash)
		p = t.part(hash)
	}
	t.infos[p.id].room--
	t.count++
	p.put(hash, ref)
}

// put writes an entry as near to its home as there is room.
func (p *part) put(hash, ref uint32) {
	at := p.home(hash)
	b := p.bucket(at)
	for b.room() == 0 {
		at = (at + 1) & p.mask
		b = p.bucket(at)
	}
	b.set(b.room().first(), hash, ref)
}

// remove takes one reference out and reports whether it was there.
func (t *table) remove(hash, ref uint32) bool {
	p := t.part(hash)
	at := p.home(hash)
	for {
		b := p.bucket(at)
		for left := b.match(uint64(hash) * hashOnes); left != 0; left &= left - 1 {
			if slot := left.first(); b.refs[slot] == ref {
				t.take(p, at, slot)
				return true
			}
		}
		if b.room() != 0 {
			return false
		}
		at = (at + 1) & p.mask
	}
}

// take empties a slot.
func (t *table) take(p *part, at uint32, slot int) {
	b := p.bucket(at)
	full := b.room() == 0
	hash := b.hash(slot)
	b.clear(slot)
	if full {
		p.refill(at, slot)
	}
	t.count--
	info := &t.infos[p.id]
	info.room++
	if count := limit(info.log) - info.room; count == 0 {
		t.blocks.give(p.first, info.log)
		info.room, info.log, info.hint = 0, 0, 0
		t.place(hash, part{first: &vacant, id: p.id})
	} else if count*4 < bucketLen<<info.log && info.log > minLog {
		t.rebuild(hash, info.log-1)
	}
}

// refill restores I8 behind a slot that was emptied in a full bucket: entries
// that had flowed over move back.
func (p *part) refill(hole uint32, slot int) {
	for at := (hole + 1) & p.mask; at != hole; at = (at + 1) & p.mask {
		b := p.bucket(at)
		full := b.room() == 0
		for left := b.used(); left != 0; left &= left - 1 {
			from := left.first()
			hash := b.hash(from)
			if (at-p.home(hash))&p.mask < (at-hole)&p.mask {
				continue // its home lies behind the hole
			}
			p.bucket(hole).set(slot, hash, b.refs[from])
			b.clear(from)
			hole, slot = at, from
			break
		}
		if !full {
			return
		}
	}
}

// limit is how many entries a part takes.
func limit(log uint8) uint32 { return 29 << log / 4 }

// place writes what is known of the part of hash to all its directory entries.
func (t *table) place(hash uint32, p part) {
	span := uint32(1) << (32 - t.shift - t.infos[p.id].depth)
	first := uint32(uint64(hash)>>(t.shift&63)) &^ (span - 1)
	for i := range span {
		t.dir[first+i] = p
	}
}

// grow makes room in the part of hash: twice the buckets, or two parts.
func (t *table) grow(hash uint32) {
	p := t.part(hash)
	info := &t.infos[p.id]
	switch {
	case p.first == &vacant:
		info.log = max(minLog, info.hint)
		info.room = limit(info.log)
		t.place(hash, part{first: t.blocks.take(info.log), mask: 1<<info.log - 1, id: p.id})
	case info.log < maxLog || info.depth >= maxSplits:
		t.rebuild(hash, info.log+1)
	default:
		t.split(hash)
	}
}

// rebuild moves the entries of hash's part to 2^log buckets, which must be
// enough.
func (t *table) rebuild(hash uint32, log uint8) {
	old := *t.part(hash)
	info := &t.infos[old.id]
	p := part{first: t.blocks.take(log), mask: 1<<log - 1, id: old.id}
	for i := range old.mask + 1 {
		b := old.bucket(i)
		for left := b.used(); left != 0; left &= left - 1 {
			slot := left.first()
			p.put(b.hash(slot), b.refs[slot])
		}
	}
	t.blocks.give(old.first, info.log)
	info.room += limit(log) - limit(info.log)
	info.log = log
	t.place(hash, p)
}

// split makes two parts of hash's by the next bit of the hash. Entries without
// it that lie at home stay.
func (t *table) split(hash uint32) {
	p := *t.part(hash)
	depth, log := t.infos[p.id].depth, t.infos[p.id].log
	if 32-t.shift == depth {
		dir := make([]part, 2*len(t.dir))
		for i := range dir {
			dir[i] = t.dir[i/2]
		}
		t.dir = dir
		t.shift--
	}
	q := part{first: t.blocks.take(log), mask: p.mask, id: uint32(len(t.infos))}
	bit := 31 - depth
	moved := uint64(0) // in two lanes
	t.strays = t.strays[:0]
	flowed := p.bucket(p.mask).room() == 0 // into the bucket in hand
	for i := range p.mask + 1 {
		b := p.bucket(i)
		full := b.room() == 0
		if flowed {
			t.stray(&p, i, b)
		}
		moved += b.halve(bit, q.bucket(i))
		flowed = full
	}
	count := uint32(moved) + uint32(moved>>32)
	for _, e := range t.strays {
		if e>>32>>bit&1 == 0 {
			p.put(uint32(e>>32), uint32(e))
		} else {
			q.put(uint32(e>>32), uint32(e))
			count++
		}
	}
	room := t.infos[p.id].room
	t.infos[p.id] = partInfo{room: room + count, depth: depth + 1, log: log}
	t.infos = append(t.infos, partInfo{room: limit(log) - count, depth: depth + 1, log: log})
	half := hash &^ (1 << (bit & 31))
	t.place(half, p)
	t.place(half|1<<(bit&31), q)
}

// stray takes what is not at home out of bucket i, to be put again.
func (t *table) stray(p *part, i uint32, b *bucket) {
	for left := b.used(); left != 0; left &= left - 1 {
		slot := left.first()
		if h := b.hash(slot); p.home(h) != i {
			t.strays = append(t.strays, uint64(h)<<32|uint64(b.refs[slot]))
			b.clear(slot)
		}
	}
}

// drop gives all memory back; the table is empty and usable.
func (t *table) drop() {
	last := -1
	for i := range t.dir {
		p := &t.dir[i]
		if int(p.id) != last && p.first != &vacant {
			t.blocks.give(p.first, t.infos[p.id].log)
		}
		last = int(p.id)
	}
	*t = newTable(t.blocks)
}

// oddHash is the 32-bit hash that a table takes.
func oddHash(hash uint64) uint32 { return uint32(hash>>32) | 1 }

// spread makes hashes dense at one end, by 2^u - 1 in a cheap approximation:
// ranges of equal width then hold from one to two times as many entries, all
// ratios being equally frequent. It keeps their order.
func spread(hash uint32) uint32 {
	u := uint64(hash)
	return uint32(u * (0xA8000000 + u*0x58000000>>32) >> 32)
}
