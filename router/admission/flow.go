package admission

import "time"

// flow is one tenant's waiters of one class: turns of conversations that go on
// before new ones, each in the order they came.
type flow struct {
	tenant     string
	start      float64 // start tag of the first, in tokens of virtual time
	turns, new line
	waiting    int
	at         int // in the heap, while somebody waits
}

// line is waiters in the order they came.
type line struct{ first, last *Waiter }

func (f *flow) line(w *Waiter) *line {
	if w.Turn {
		return &f.turns
	}
	return &f.new
}

// next is who goes next. Not of an empty flow. A4
func (f *flow) next(now time.Time) *Waiter {
	if w := f.oldest(); f.turns.first == nil || w.late(now) {
		return w
	}
	return f.turns.first
}

// oldest is who came first. Not of an empty flow.
func (f *flow) oldest() *Waiter {
	if t, n := f.turns.first, f.new.first; t == nil || n != nil && n.order < t.order {
		return n
	}
	return f.turns.first
}

// last is who makes way for others. Not of an empty flow.
func (f *flow) last() *Waiter {
	if f.new.last != nil {
		return f.new.last
	}
	return f.turns.last
}

func (f *flow) push(w *Waiter, front bool) {
	w.flow = f
	f.waiting++
	l := f.line(w)
	switch {
	case l.first == nil:
		l.first, l.last = w, w
	case front:
		w.next, l.first.before, l.first = l.first, w, w
	default:
		w.before, l.last.next, l.last = l.last, w, w
	}
}

func (f *flow) remove(w *Waiter) {
	l := f.line(w)
	if w.before != nil {
		w.before.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.before = w.before
	} else {
		l.last = w.before
	}
	w.flow, w.before, w.next = nil, nil, nil
	f.waiting--
}

// flowHeap has the least start tag first; ties go to who came first.
type flowHeap []*flow

func (h flowHeap) Len() int { return len(h) }
func (h flowHeap) Less(i, j int) bool {
	if h[i].start != h[j].start {
		return h[i].start < h[j].start
	}
	return h[i].oldest().order < h[j].oldest().order
}
func (h flowHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *flowHeap) Push(x any) {
	f := x.(*flow)
	f.at = len(*h)
	*h = append(*h, f)
}

func (h *flowHeap) Pop() any {
	old := *h
	f := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return f
}
