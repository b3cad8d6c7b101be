package radix

import "unsafe"

const (
	chunkShift = 13
	chunkLen   = 1 << chunkShift
	chunkMask  = chunkLen - 1
	// dirLen chunks bound a slab: 2^25 records, so 2^29 blocks or facts.
	dirLen = 1 << 12
)

// slab is a growing array of pointer-free records that never move, so readers
// may hold references. Records are zero when first used.
//
// Only the writer grows it. A reader learns an id from an atomic word that was
// stored after the record's chunk, so it needs no atomic to find the chunk.
type slab[T any] struct {
	mem *memory
	n   uint32 // records ever used
	dir [dirLen]*[chunkLen]T
}

// at returns record i, which must be below n.
func (s *slab[T]) at(i uint32) *T { return &s.dir[i>>chunkShift][i&chunkMask] }

// extend adds count consecutive records and returns the first.
func (s *slab[T]) extend(count uint32) uint32 {
	first := s.n
	s.n += count
	for c := (s.n - 1) >> chunkShift; s.dir[c] == nil; c-- {
		s.dir[c] = carve[[chunkLen]T](s.mem)
		if c == 0 {
			break
		}
	}
	return first
}

// pool is a slab whose records are used again, last freed first.
type pool[T any] struct {
	slab[T]
	free []uint32
}

func (p *pool[T]) take() uint32 {
	if n := len(p.free); n > 0 {
		id := p.free[n-1]
		p.free = p.free[:n-1]
		return id
	}
	return p.extend(1)
}

func (p *pool[T]) give(id uint32) { p.free = append(p.free, id) }

// inUse counts the records taken and not given back.
func (p *pool[T]) inUse() int { return int(p.n) - len(p.free) }

// memory is everything a tree holds outside of the Go heap (where that is
// possible): the collector neither scans nor counts it.
type memory struct {
	maps  [][]byte
	bytes int64
}

// carve returns one zeroed, 8-byte aligned T, which must hold no pointers.
func carve[T any](m *memory) *T {
	b := mapBytes(int(unsafe.Sizeof(*(*T)(nil))))
	m.maps = append(m.maps, b)
	m.bytes += int64(len(b))
	return (*T)(unsafe.Pointer(unsafe.SliceData(b)))
}

// close gives everything back.
func (m *memory) close() {
	for _, b := range m.maps {
		unmapBytes(b)
	}
	m.maps, m.bytes = nil, 0
}

// heapBytes is 8-byte aligned memory on the Go heap.
func heapBytes(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}
