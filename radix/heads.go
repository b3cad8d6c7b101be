package radix

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

const (
	headParts = 256
	// headLive marks a slot that names a line; a slot of headDead named one
	// once.
	headLive = 1 << 31
	headDead = 1
)

// heads maps the first key of every line to the line; it is all that readers
// need to enter a chain. A slot is hash<<32|headLive|line. Entries never move
// inside a part; a full part is replaced whole and the old one is left to
// the collector, so readers may finish on it.
type heads struct {
	parts [headParts]atomic.Pointer[headPart]
	state [headParts]struct{ used, live int } // writer only; used counts dead slots
	bytes int64
}

type headPart struct {
	shift uint8 // slots = 1 << (32 - shift)
	slots []atomic.Uint64
}

func (p *headPart) home(hash uint32) int { return int(hash << 8 >> p.shift) }

func (p *headPart) next(i int) int { return (i + 1) & (len(p.slots) - 1) }

// prefetch begins to load what insert and remove look at first.
func (h *heads) prefetch(hash uint32) {
	if p := h.parts[hash>>24].Load(); p != nil {
		prefetch(unsafe.Pointer(&p.slots[p.home(hash)]))
	}
}

// insert adds a line. The line must already be readable.
func (h *heads) insert(hash, line uint32) {
	i := hash >> 24
	st := &h.state[i]
	p := h.parts[i].Load()
	if p == nil || (st.used+1)*5 > len(p.slots)*3 {
		p = h.renew(i, p)
	}
	at := p.home(hash)
	for {
		e := p.slots[at].Load()
		if e == 0 {
			st.used++
			break
		}
		if e == headDead {
			break
		}
		at = p.next(at)
	}
	p.slots[at].Store(uint64(hash)<<32 | headLive | uint64(line))
	st.live++
}

// remove takes a line out.
func (h *heads) remove(hash, line uint32) {
	i := hash >> 24
	p := h.parts[i].Load()
	e := uint64(hash)<<32 | headLive | uint64(line)
	at := p.home(hash)
	for p.slots[at].Load() != e {
		at = p.next(at)
	}
	st := &h.state[i]
	st.live--
	if p.slots[p.next(at)].Load() == 0 {
		p.slots[at].Store(0)
		st.used--
		return
	}
	p.slots[at].Store(headDead)
}

// renew replaces a part by one without dead slots and at most half full.
func (h *heads) renew(i uint32, old *headPart) *headPart {
	st := &h.state[i]
	log := max(3, bits.Len(uint(st.live+1)*2))
	p := &headPart{shift: uint8(32 - log), slots: make([]atomic.Uint64, 1<<log)}
	h.bytes += int64(8 << log)
	if old != nil {
		h.bytes -= int64(8 * len(old.slots))
		for j := range old.slots {
			e := old.slots[j].Load()
			if e&headLive == 0 {
				continue
			}
			at := p.home(uint32(e >> 32))
			for p.slots[at].Load() != 0 {
				at = p.next(at)
			}
			p.slots[at].Store(e)
		}
	}
	st.used = st.live
	h.parts[i].Store(p)
	return p
}
