package radix

import "unsafe"

const (
	blockChunk  = 1 << 13 // buckets mapped at once
	pageBuckets = 64      // on a page of memory, mostly
)

// blocks hands out runs of buckets, powers of two.
type blocks struct {
	mem  *memory
	rest []bucket
	free [32][]*bucket // by log2 of the size
	used int64         // buckets handed out
}

// take returns the first of 2^log empty buckets side by side. Every new page
// is written to before anybody reads it: reading first maps a page of zeros,
// which the first write must take from all processors again, at several times
// the cost.
func (b *blocks) take(log uint8) *bucket {
	size := 1 << log
	b.used += int64(size)
	if list := b.free[log]; len(list) > 0 {
		first := list[len(list)-1]
		b.free[log] = list[:len(list)-1]
		clear(unsafe.Slice(first, size))
		return first
	}
	if size > blockChunk {
		return &make([]bucket, size)[0]
	}
	if len(b.rest) < size {
		b.rest = carve[[blockChunk]bucket](b.mem)[:]
	}
	first := &b.rest[0]
	for i := 0; i < size; i += pageBuckets {
		b.rest[i].refs[0] = 0
	}
	b.rest = b.rest[size:]
	return first
}

// give takes 2^log buckets back.
func (b *blocks) give(first *bucket, log uint8) {
	b.used -= 1 << log
	if 1<<log <= blockChunk {
		b.free[log] = append(b.free[log], first)
	}
}
