package simulation

import "container/heap"

// agenda is virtual time, ms, and what is to happen in it. Things of one ms
// happen in the order in which they were planned.
type agenda struct {
	now   int64
	seq   uint64
	items agendaHeap
}

type agendaItem struct {
	at  int64
	seq uint64
	do  func()
}

// maxAgenda bounds what is planned at a time: a protocol that relays without
// end is stopped here.
const maxAgenda = 1 << 19

// after plans something ms from now.
func (a *agenda) after(ms int64, do func()) {
	if len(a.items) >= maxAgenda {
		panic("invariant: a storm of frames")
	}
	a.seq++
	heap.Push(&a.items, agendaItem{a.now + max(ms, 0), a.seq, do})
}

// every repeats do until it returns false.
func (a *agenda) every(ms int64, do func() bool) {
	a.after(ms, func() {
		if do() {
			a.every(ms, do)
		}
	})
}

// runUntil lets everything happen that is planned until a time, inclusive.
func (a *agenda) runUntil(end int64) {
	for len(a.items) > 0 && a.items[0].at <= end {
		it := heap.Pop(&a.items).(agendaItem)
		a.now = it.at
		it.do()
	}
	a.now = end
}

type agendaHeap []agendaItem

func (h agendaHeap) Len() int { return len(h) }
func (h agendaHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h agendaHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *agendaHeap) Push(x any)   { *h = append(*h, x.(agendaItem)) }
func (h *agendaHeap) Pop() any {
	old := *h
	it := old[len(old)-1]
	*h = old[:len(old)-1]
	return it
}
