package admission

// flow is one tenant's waiters of one class, in the order they came.
type flow struct {
	tenant      string
	start       float64 // start tag of the first, in tokens of virtual time
	first, last *Waiter
	waiting     int
	at          int // in the heap, while somebody waits
}

func (f *flow) push(w *Waiter, front bool) {
	w.flow = f
	f.waiting++
	switch {
	case f.first == nil:
		f.first, f.last = w, w
	case front:
		w.next, f.first.before, f.first = f.first, w, w
	default:
		w.before, f.last.next, f.last = f.last, w, w
	}
}

func (f *flow) remove(w *Waiter) {
	if w.before != nil {
		w.before.next = w.next
	} else {
		f.first = w.next
	}
	if w.next != nil {
		w.next.before = w.before
	} else {
		f.last = w.before
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
	return h[i].first.order < h[j].first.order
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
