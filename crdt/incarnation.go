package crdt

import "slices"

// held is a slot above the floor.
type held struct {
	Slot
	clears bool
}

// incarnation is the state (f, V, B, T, U) of one epoch of a stream.
type incarnation struct {
	epoch  uint64
	anchor uint64
	floor  uint64 // f
	voids  Spans  // V
	lost   Spans  // U, disjoint from above (I2)
	blocks Blocks // B, with above[:folded] on top (I1)
	base   Sum    // of B

	above      []held // T, ascending, all > floor
	aboveSet   Spans  // their numbers
	aboveBytes int
	folded     int  // so many of above lie on top of the base
	stale      bool // above changed below folded: rewind before anything else

	// While a fold is not at its end (I12).
	rewinding bool  // what lies on top is being undone
	settled   int   // so many of above are in the base, only not below the floor
	at        Place // how far the first slot that is not folded is

	recent    []Slot    // kept slots <= floor, ascending; owned by the Ring
	kept      []Slot    // the whole array whose end recent is
	place     ringPlace // of their last ref; the Ring's
	lastClear uint64    // highest folded slot with a clear; 0 none
	sums      sumRing

	topTS int64  // engine time of slot top
	top   uint64 // highest known slot
}

func newIncarnation(epoch, anchor uint64, blocks Blocks) *incarnation {
	anchor = max(anchor, 1)
	return &incarnation{epoch: epoch, anchor: anchor, floor: anchor - 1, blocks: blocks}
}

// find returns where seq is, or would be, in above.
func (x *incarnation) find(seq uint64) (i int, ok bool) {
	if n := len(x.above); n == 0 || x.above[n-1].Seq < seq {
		return n, false
	}
	return slices.BinarySearchFunc(x.above, seq, func(h held, seq uint64) int {
		switch {
		case h.Seq < seq:
			return -1
		case h.Seq > seq:
			return 1
		}
		return 0
	})
}

// get returns slot seq of those up to the floor, if the ring still has it.
func (x *incarnation) get(seq uint64) (Slot, bool) {
	if i := x.recentFrom(seq); i < len(x.recent) && x.recent[i].Seq == seq {
		return x.recent[i], true
	}
	return Slot{}, false
}

// recentFrom is the index of the first kept slot >= seq.
func (x *incarnation) recentFrom(seq uint64) int {
	i, _ := slices.BinarySearchFunc(x.recent, seq, func(s Slot, seq uint64) int {
		switch {
		case s.Seq < seq:
			return -1
		case s.Seq > seq:
			return 1
		}
		return 0
	})
	return i
}

// fate is what became of an offered slot.
type fate int

const (
	fateNew fate = iota
	fateKnown
	fateConflict // known with other content
)

// offer puts a slot into T unless it is known. Real beats lost until folded;
// of two contents the larger hash wins, but a folded one cannot be undone: its
// base loses against a better one by the order of bases.
func (x *incarnation) offer(s Slot, clears bool) fate {
	if s.Seq <= x.floor {
		if have, ok := x.get(s.Seq); ok && !sameSlot(&have, &s) {
			return fateConflict
		}
		return fateKnown
	}
	i, known := x.find(s.Seq)
	if !known {
		x.above = slices.Insert(x.above, i, held{s, clears})
		x.aboveSet = x.aboveSet.Add(Span{s.Seq, s.Seq})
		x.aboveBytes += slotCost(&s)
		x.stale = x.stale || i < x.folded
		if len(x.lost) > 0 {
			x.lost = x.lost.Minus(Spans{{s.Seq, s.Seq}})
		}
		x.note(s.Seq, s.TS)
		return fateNew
	}
	have := &x.above[i]
	if sameSlot(&have.Slot, &s) {
		return fateKnown
	}
	if s.Hash() > have.Hash() {
		x.aboveBytes += len(s.Body) - len(have.Body)
		*have = held{s, clears}
		x.stale = x.stale || i < x.folded
	}
	return fateConflict
}

func sameSlot(a, b *Slot) bool { return a.TS == b.TS && string(a.Body) == string(b.Body) }

// note remembers the highest known slot.
func (x *incarnation) note(seq uint64, ts int64) {
	if seq > x.top {
		x.top, x.topTS = seq, ts
	}
}

// lose declares slots above the floor lost, except known ones.
func (x *incarnation) lose(s Span) {
	s.From, s.To = max(s.From, x.floor+1), min(s.To, MaxSeq)
	if s.From > s.To {
		return
	}
	real := x.aboveSet.within(s.From, s.To)
	x.lost = x.lost.Union(Spans{s}.Minus(real))
}

// holes is what is neither known nor declared lost between the floor and the
// highest known slot.
func (x *incarnation) holes() Spans {
	if len(x.above) == 0 {
		return nil
	}
	top := x.above[len(x.above)-1].Seq
	holes := Spans{{x.floor + 1, top}}.Minus(x.aboveSet)
	if len(x.lost) > 0 {
		holes = holes.Minus(x.lost)
	}
	return holes
}

// sumRing remembers the sums of the base at the last floors.
type sumRing struct {
	at   [sumsKept]struct{ floor, count, facts, linked, keys uint64 }
	next int
	n    int
}

// sumsKept is how many recent floors can be compared between two peers.
const sumsKept = 64

func (r *sumRing) put(floor uint64, s Sum) {
	e := &r.at[r.next]
	e.floor, e.count, e.facts, e.linked, e.keys = floor, s.Count, s.Facts, s.Linked, s.KeyXOR
	r.next = (r.next + 1) % sumsKept
	r.n = min(r.n+1, sumsKept)
}

// get looks from the newest back.
func (r *sumRing) get(floor uint64) (Sum, bool) {
	for i := range r.n {
		e := &r.at[(r.next-1-i+sumsKept)%sumsKept]
		if e.floor == floor {
			return Sum{e.count, e.facts, e.linked, e.keys}, true
		}
	}
	return Sum{}, false
}
