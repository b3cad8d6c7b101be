package replica

import "math/bits"

// table maps keys to page numbers: open addressing with linear probing, kept
// at most half full. A run touches every page of every prompt two or three
// times, and a built-in map costs twice as much.
type table struct {
	slots []slot
	shift uint // 64 - log2(len(slots))
	n     int
}

// slot is empty while at is 0: no page has that number.
type slot struct {
	key uint64
	at  int32
}

// minSlots is the size of a table that holds something.
const minSlots = 64

// home is where a key's probe begins. Callers' keys need not be hashes.
func (t *table) home(key uint64) int { return int(key * 0x9e3779b97f4a7c15 >> t.shift) }

// probe finds a key's slot, or the empty one where it would go.
func (t *table) probe(key uint64) int {
	mask := len(t.slots) - 1
	i := t.home(key)
	for t.slots[i].at != 0 && t.slots[i].key != key {
		i = (i + 1) & mask
	}
	return i
}

// get returns the page of a key, 0 if there is none.
func (t *table) get(key uint64) int32 {
	if t.n == 0 {
		return 0
	}
	return t.slots[t.probe(key)].at
}

// put sets the page of a key unless it has one, which it then returns.
func (t *table) put(key uint64, at int32) (old int32) {
	if 2*(t.n+1) > len(t.slots) {
		t.grow()
	}
	s := &t.slots[t.probe(key)]
	if s.at != 0 {
		return s.at
	}
	*s = slot{key, at}
	t.n++
	return 0
}

// replace sets the page of a key that has one.
func (t *table) replace(key uint64, at int32) { t.slots[t.probe(key)].at = at }

// remove forgets a key that is there, closing the gap it leaves.
func (t *table) remove(key uint64) {
	mask := len(t.slots) - 1
	gap := t.probe(key)
	for i := (gap + 1) & mask; t.slots[i].at != 0; i = (i + 1) & mask {
		if (i-t.home(t.slots[i].key))&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = slot{}
	t.n--
}

func (t *table) grow() {
	old := t.slots
	size := max(minSlots, 2*len(old))
	t.slots, t.n = make([]slot, size), 0
	t.shift = uint(64 - bits.TrailingZeros(uint(size)))
	for _, s := range old {
		if s.at != 0 {
			t.put(s.key, s.at)
		}
	}
}

// clear forgets everything.
func (t *table) clear() { *t = table{} }
