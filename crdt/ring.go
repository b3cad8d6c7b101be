package crdt

// DefaultRingBytes is the budget of a Ring that was given none.
const DefaultRingBytes = 64 << 20

// slotOverhead is what a kept slot costs besides its body, bytes.
const slotOverhead = 64

// Ring bounds the bytes of recent slots below the floors of all streams that
// share it. Deltas are cut from them; when the budget is exceeded the slots
// folded longest ago go first. All streams of a Ring are serialised by the same
// caller.
type Ring struct {
	budget int // bytes, immutable
	bytes  int
	queue  []ringRef
	turn   int // changes when queue is tidied: places remembered are void then
	head   int // first live element of queue
	tidyAt int // length of queue at which stale entries are dropped
}

// ringRef says that an incarnation kept some slots, up to seq, at about this
// point of the queue: slots that come soon after each other share one, so that
// they go together, which costs fewer cache misses. It may be stale: the
// incarnation may have dropped its slots since.
type ringRef struct {
	of    *incarnation
	seq   uint64
	slots int
	bytes int
}

// Bounds of a shared ringRef.
const (
	refSlots  = 16
	refShare  = 256 // of the budget
	refWithin = 256 // refs that came since
)

// ringPlace is where an incarnation's last ref lies in a queue.
type ringPlace struct{ turn, at int }

// NewRing makes a ring of budget bytes; DefaultRingBytes if budget is 0.
func NewRing(budget int) *Ring {
	if budget <= 0 {
		budget = DefaultRingBytes
	}
	return &Ring{budget: budget, turn: 1}
}

// keep adds a slot at the end of x's part. Invariant I6: the bytes kept never
// exceed the budget once keep returns.
func (r *Ring) keep(x *incarnation, s Slot) {
	if len(x.recent) == cap(x.recent) {
		x.makeRoom()
	}
	x.recent = append(x.recent, s)
	r.note(x, s.Seq, slotCost(&s))
	r.bytes += slotCost(&s)
	for r.bytes > r.budget {
		r.evict()
	}
	if r.head > len(r.queue)/2 || len(r.queue) > max(r.tidyAt, 1024) {
		r.tidy()
	}
}

// makeRoom makes room for another kept slot: in the array that there is if a
// third of it is forgotten, so that a stream that goes on allocates nothing.
func (x *incarnation) makeRoom() {
	n := len(x.recent)
	forgotten := len(x.kept) - n
	if forgotten < max(n/2, 1) {
		kept := make([]Slot, max(16, n+n/2+1))
		copy(kept, x.recent)
		x.kept, x.recent = kept, kept[:n]
		return
	}
	copy(x.kept, x.recent)
	clear(x.kept[max(n, forgotten):]) // what is before it is clear
	x.recent = x.kept[:n]
}

// note queues a slot, in the incarnation's last ref if that is fresh and small.
func (r *Ring) note(x *incarnation, seq uint64, cost int) {
	if at := x.place.at; x.place.turn == r.turn && at >= r.head && len(r.queue)-at <= refWithin {
		ref := &r.queue[at]
		if ref.seq < seq && ref.slots < refSlots && ref.bytes+cost <= r.budget/refShare {
			ref.seq = seq
			ref.slots++
			ref.bytes += cost
			return
		}
	}
	x.place = ringPlace{r.turn, len(r.queue)}
	r.queue = append(r.queue, ringRef{x, seq, 1, cost})
}

func slotCost(s *Slot) int { return slotOverhead + len(s.Body) }

// evict takes the oldest entry off the queue and drops what it kept.
func (r *Ring) evict() {
	ref := r.queue[r.head]
	r.queue[r.head] = ringRef{}
	r.head++
	x := ref.of
	n := 0
	for n < len(x.recent) && x.recent[n].Seq <= ref.seq {
		n++
	}
	r.forget(x, n)
}

// forget drops the first n slots of x.
func (r *Ring) forget(x *incarnation, n int) {
	for i := range n {
		r.bytes -= slotCost(&x.recent[i])
		x.recent[i] = Slot{}
	}
	x.recent = x.recent[n:]
}

// release drops all slots of x and hands them to the caller.
func (r *Ring) release(x *incarnation) []Slot {
	slots := append([]Slot(nil), x.recent...)
	r.forget(x, len(x.recent))
	x.recent, x.kept, x.place = nil, nil, ringPlace{}
	return slots
}

// tidy drops the consumed front of the queue and stale entries.
func (r *Ring) tidy() {
	live := r.queue[:0]
	for _, ref := range r.queue[r.head:] {
		if n := len(ref.of.recent); n > 0 && ref.seq >= ref.of.recent[0].Seq && ref.seq <= ref.of.recent[n-1].Seq {
			live = append(live, ref)
		}
	}
	clear(r.queue[len(live):])
	r.queue, r.head = live, 0
	r.turn++
	r.tidyAt = 2 * len(live) // so that tidying costs O(1) a slot
}
