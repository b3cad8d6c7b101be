package crdt

import (
	"encoding/binary"
	"math/bits"
)

// FactHash is what one fact contributes to Sum.Facts. For any two of its
// arguments fixed it is a bijection of the third, so changing one field of one
// fact always changes the digest (I9). Meta carries the absolute seq of the
// last store and the copies on every tier. O(1), about 3 ns.
func FactHash(handle, space uint64, meta Meta) uint64 {
	return finish(finish(handle^space*0x9fb21c651e98df25) ^ uint64(meta)*0xd6e8feb86659fd93)
}

// KeyHash is what one linked fact contributes to Sum.KeyXOR, a bijection of
// either argument. O(1).
func KeyHash(handle, key uint64) uint64 {
	return finish(finish(handle+0x9e3779b97f4a7c15) ^ key*0xa0761d6478bd642f)
}

// finish is the finaliser of splitmix64 (Steele, Lea, Flood 2014): bijective.
func finish(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Hash names a slot's content: seq, engine time and body. Of two slots with
// one dot the larger hash wins. O(len(Body)), about 0.2 ns a byte.
func (s *Slot) Hash() uint64 {
	h := finish(s.Seq^uint64(len(s.Body))<<40) ^ finish(uint64(s.TS)+0x9e3779b97f4a7c15)
	b := s.Body
	for len(b) >= 16 {
		h = mix128(h^binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])^0x8ebc6af09c88c6e3)
		b = b[16:]
	}
	var tail [16]byte
	copy(tail[:], b)
	h = mix128(h^binary.LittleEndian.Uint64(tail[:]), binary.LittleEndian.Uint64(tail[8:])^0x589965cc75374cc3)
	return finish(h)
}

// mix128 multiplies to 128 bits and folds the halves. The offset keeps a zero
// factor from erasing the other.
func mix128(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b)
	return hi ^ lo ^ a
}
