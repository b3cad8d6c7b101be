package radix

import "math/bits"

const (
	minBlock   = 16      // slots
	blockChunk = 1 << 16 // slots mapped at once
)

// blocks hands out runs of table slots, powers of two from minBlock on.
type blocks struct {
	mem  *memory
	rest []uint64
	free [32][][]uint64 // by log2 of the size
	used int64          // slots handed out
}

// take returns a zeroed block of at least n slots.
func (b *blocks) take(n uint32) []uint64 {
	log := bits.Len32(max(n, minBlock) - 1)
	size := 1 << log
	b.used += int64(size)
	if list := b.free[log]; len(list) > 0 {
		s := list[len(list)-1]
		b.free[log] = list[:len(list)-1]
		clear(s)
		return s
	}
	if size > blockChunk {
		return make([]uint64, size)
	}
	if len(b.rest) < size {
		b.rest = carve[[blockChunk]uint64](b.mem)[:]
	}
	s := b.rest[:size:size]
	b.rest = b.rest[size:]
	return s
}

func (b *blocks) give(s []uint64) {
	b.used -= int64(len(s))
	if len(s) > 0 && len(s) <= blockChunk {
		log := bits.Len(uint(len(s))) - 1
		b.free[log] = append(b.free[log], s)
	}
}
