package radix

import "math/bits"

const (
	bucketLen  = 8
	hashOnes   = 1<<32 | 1 // the lowest bit of both hashes of a word
	hashTops   = hashOnes << 31
	fullBucket = hashOnes<<25 | hashOnes<<27 | hashOnes<<29 | hashOnes<<31
)

// bucket is eight entries of a table on one cache line. Hash 0 is an empty
// slot; other hashes are odd. Words hold the hashes of slots i and i+4, so that
// all eight are compared without a branch.
type bucket struct {
	hashes [bucketLen / 2]uint64
	refs   [bucketLen]uint32
}

// slotMask has a bit for each of some slots of a bucket: 25+2i for slot i, and
// 57+2i for slot i+4.
type slotMask uint64

// first is the slot of the lowest bit.
func (m slotMask) first() int {
	at := bits.TrailingZeros64(uint64(m))
	return at>>1&3 | at>>5<<2
}

// used are the slots that hold an entry.
func (b *bucket) used() slotMask {
	h := &b.hashes
	return slotMask(h[0]&hashOnes<<25 | h[1]&hashOnes<<27 | h[2]&hashOnes<<29 | h[3]&hashOnes<<31)
}

// room are the empty slots.
func (b *bucket) room() slotMask { return b.used() ^ fullBucket }

// halve moves the entries whose hash has bit at, which is not 0, to the same
// slots of to, which is empty. It returns how many they are, those of slots 0
// to 3 in the lower half of the word.
func (b *bucket) halve(at uint8, to *bucket) (moved uint64) {
	for i := range b.hashes {
		h := b.hashes[i]
		having := h >> (at & 31) & hashOnes
		moved += having
		mask := having * (1<<32 - 1)
		to.hashes[i], b.hashes[i] = h&mask, h&^mask
		low, high := b.refs[i], b.refs[i+bucketLen/2]
		to.refs[i], b.refs[i] = low&uint32(mask), low&^uint32(mask)
		to.refs[i+bucketLen/2], b.refs[i+bucketLen/2] = high&uint32(mask>>32), high&^uint32(mask>>32)
	}
	return moved
}

// match are the slots that hold hash, given twice in a word. Rarely it names
// another one too (the subtraction borrows from its neighbour), whose reference
// is 0 or refers to something else.
func (b *bucket) match(twice uint64) slotMask {
	w, x, y, z := b.hashes[0]^twice, b.hashes[1]^twice, b.hashes[2]^twice, b.hashes[3]^twice
	return slotMask((w-hashOnes)&^w&hashTops>>6 | (x-hashOnes)&^x&hashTops>>4 |
		(y-hashOnes)&^y&hashTops>>2 | (z-hashOnes)&^z&hashTops)
}

func (b *bucket) hash(slot int) uint32 { return uint32(b.hashes[slot&3] >> (slot >> 2 * 32 & 63)) }

func (b *bucket) set(slot int, hash, ref uint32) {
	b.hashes[slot&3] |= uint64(hash) << (slot >> 2 * 32 & 63)
	b.refs[slot&7] = ref
}

func (b *bucket) clear(slot int) {
	b.hashes[slot&3] &^= (1<<32 - 1) << (slot >> 2 * 32 & 63)
	b.refs[slot&7] = 0
}
