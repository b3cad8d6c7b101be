package bpe

// scratch is the room in which one text is merged, used again for the next.
type scratch struct {
	ids   []uint32 // the tokens of a piece before merging
	ranks []uint32 // of the pair that begins here
	made  []uint32 // what it becomes
	next  []int32
	prev  []int32
	heap  []uint64 // rank<<32 | position
	cache pieceCache
}

// few is how many tokens are merged by looking at all pairs each time: below it
// that takes less than a heap.
const few = 32

// merge appends to dst what sc.ids become: always the pair of the lowest rank, of
// those the first.
func (m *model) merge(dst []uint32, sc *scratch) []uint32 {
	if len(sc.ids) <= few {
		return m.mergeFew(dst, sc)
	}
	return m.mergeMany(dst, sc)
}

func (sc *scratch) grow(n int) {
	if cap(sc.ranks) < n {
		n += n / 2
		sc.ranks, sc.made = make([]uint32, n), make([]uint32, n)
		sc.next, sc.prev = make([]int32, n), make([]int32, n)
	}
}

func (m *model) mergeFew(dst []uint32, sc *scratch) []uint32 {
	ids := sc.ids
	sc.grow(len(ids))
	ranks, made := sc.ranks[:len(ids)], sc.made[:len(ids)]
	for i := range len(ids) - 1 {
		ranks[i], made[i] = m.pairs.get(ids[i], ids[i+1])
	}
	for n := len(ids); n > 1; n-- {
		best, at := none, 0
		for i, rank := range ranks[:n-1] {
			if rank < best {
				best, at = rank, i
			}
		}
		if best == none {
			ids = ids[:n]
			break
		}
		ids[at] = made[at]
		copy(ids[at+1:n-1], ids[at+2:n])
		if at+2 < n {
			copy(ranks[at+1:n-2], ranks[at+2:n-1])
			copy(made[at+1:n-2], made[at+2:n-1])
			ranks[at], made[at] = m.pairs.get(ids[at], ids[at+1])
		}
		if at > 0 {
			ranks[at-1], made[at-1] = m.pairs.get(ids[at-1], ids[at])
		}
		ids = ids[:n-1]
	}
	return append(dst, ids...)
}

// mergeMany is mergeFew for long pieces: a heap of pairs, and a list of the tokens
// that are left. A pair on the heap that is no more has another rank at its
// place.
func (m *model) mergeMany(dst []uint32, sc *scratch) []uint32 {
	ids, n := sc.ids, len(sc.ids)
	sc.grow(n)
	ranks, made, next, prev := sc.ranks[:n], sc.made[:n], sc.next[:n], sc.prev[:n]
	sc.heap = sc.heap[:0]
	for i := range n {
		next[i], prev[i] = int32(i+1), int32(i-1)
		ranks[i] = none
		if i+1 < n {
			m.pair(sc, i, i+1)
		}
	}
	for len(sc.heap) > 0 {
		top := sc.pop()
		at := int(uint32(top))
		if ranks[at] != uint32(top>>32) {
			continue
		}
		gone := int(next[at])
		ids[at], ranks[gone] = made[at], none
		next[at] = next[gone]
		ranks[at] = none
		if after := int(next[at]); after < n {
			prev[after] = int32(at)
			m.pair(sc, at, after)
		}
		if before := int(prev[at]); before >= 0 {
			m.pair(sc, before, at)
		}
	}
	for i := 0; i < n; i = int(next[i]) {
		dst = append(dst, ids[i])
	}
	return dst
}

// pair notes what the tokens at two neighbouring places become.
func (m *model) pair(sc *scratch, at, after int) {
	rank, id := m.pairs.get(sc.ids[at], sc.ids[after])
	sc.ranks[at], sc.made[at] = rank, id
	if rank != none {
		sc.push(uint64(rank)<<32 | uint64(at))
	}
}

func (sc *scratch) push(x uint64) {
	h := append(sc.heap, x)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 4
		if h[up] <= x {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = x
	sc.heap = h
}

func (sc *scratch) pop() uint64 {
	h := sc.heap
	top, x := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	sc.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		low := 4*i + 1
		if low >= len(h) {
			break
		}
		for k := low + 1; k < min(4*i+5, len(h)); k++ {
			if h[k] < h[low] {
				low = k
			}
		}
		if h[low] >= x {
			break
		}
		h[i] = h[low]
		i = low
	}
	h[i] = x
	return top
}
