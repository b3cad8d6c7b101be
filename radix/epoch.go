package radix

import (
	"sync/atomic"
)

const slotsPerBlock = 32

// epochs tells the writer when no reader can still see what it unlinked. A
// reader holds a slot with the epoch it began in; what was retired in epoch e
// may be used again when every active reader began after e.
type epochs struct {
	now   atomic.Uint64 // starts at 1
	_     [56]byte
	first slotBlock
}

// slot is on a cache line of its own: readers do not disturb each other.
type slot struct {
	epoch atomic.Uint64 // 0: free
	_     [56]byte
}

type slotBlock struct {
	slots [slotsPerBlock]slot
	next  atomic.Pointer[slotBlock]
}

// enter claims a slot, its favourite one if it is free. It never waits: when
// all are taken it adds more.
func (e *epochs) enter(favourite uint32) *slot {
	now := e.now.Load()
	for b := &e.first; ; {
		for i := range uint32(slotsPerBlock) {
			s := &b.slots[(favourite+i)%slotsPerBlock]
			if s.epoch.Load() == 0 && s.epoch.CompareAndSwap(0, now) {
				return s
			}
		}
		next := b.next.Load()
		if next == nil {
			b.next.CompareAndSwap(nil, new(slotBlock))
			next = b.next.Load()
		}
		b = next
	}
}

func (s *slot) leave() { s.epoch.Store(0) }

// oldest is the epoch of the oldest active reader, or the present one.
func (e *epochs) oldest() uint64 {
	oldest := e.now.Load()
	for b := &e.first; b != nil; b = b.next.Load() {
		for i := range b.slots {
			if began := b.slots[i].epoch.Load(); began != 0 {
				oldest = min(oldest, began)
			}
		}
	}
	return oldest
}

type retiredKind uint8

const (
	retiredLine retiredKind = iota
	retiredMixed
	retiredSet
)

type retired struct {
	epoch uint64
	id    uint32
	kind  retiredKind
}

// retire queues what has just been unlinked.
func (t *Tree) retire(kind retiredKind, id uint32) {
	t.retired = append(t.retired, retired{t.epochs.now.Load(), id, kind})
}

// reclaim makes free what no reader can see any more. It costs a look at
// every reader slot, so it waits until there is something to gain.
func (t *Tree) reclaim(least int) {
	if len(t.retired)-t.reclaimed < least {
		return
	}
	t.epochs.now.Add(1)
	oldest := t.epochs.oldest()
	for ; t.reclaimed < len(t.retired) && t.retired[t.reclaimed].epoch < oldest; t.reclaimed++ {
		switch r := t.retired[t.reclaimed]; r.kind {
		case retiredLine:
			t.lines.give(r.id)
		case retiredMixed:
			t.mixed.give(r.id)
		case retiredSet:
			t.sets.give(r.id)
		}
	}
	if t.reclaimed*2 >= len(t.retired) {
		n := copy(t.retired, t.retired[t.reclaimed:])
		t.retired, t.reclaimed = t.retired[:n], 0
	}
}
