package crdt

import "math"

// begin starts to bring an incarnation into canonical form: everything
// foldable is folded into the base, the rest of T lies on top in order (I1,
// I3). step does it. O(slots above), without any fact.
func (x *incarnation) begin() {
	x.jump()
	if x.folded == 0 {
		return
	}
	switch n, _ := x.reach(x.folded); {
	case n == 0:
		x.rewinding = x.stale
	case n == x.folded && !x.stale: // the overlay is the next part of the base
		x.blocks.Settle()
		x.settled, x.folded = x.folded, 0
	default:
		x.rewinding = true
	}
}

// step does about max blocks and slots of what begin began and reports whether
// the form is canonical. In between the floor is that of the whole slots
// folded; the next one may be folded in part. Nothing else is done with the
// incarnation until then (I12).
//
// T (above) lies in three runs: the first settled slots are part of the base
// already, only the floor must pass them; after those, the first folded ones
// lie on top as the overlay; the rest is not folded. begin leaves at most one of
// settled and folded. The work, in order:
//
//  1. rewinding: the overlay is undone, so that folded is 0.
//  2. What reach finds from the floor on is folded into the base (absorb): slots
//     that follow one another, and what is declared lost between.
//  3. The rest of T is folded on top, in order.
//
// at is how far the slot of 2 or 3 is folded that did not fit into max. max used
// up to the last block answers false, also where nothing is left: the next call
// finds that out.
func (x *incarnation) step(r *Ring, max int) (done bool) {
	left := max
	if x.rewinding && left > 0 {
		if left -= x.blocks.Rewind(left); left <= 0 {
			return false
		}
		x.folded, x.stale, x.rewinding = 0, false, false
	}
	for left > 0 && !x.rewinding {
		n, floor := x.reach(left)
		if floor == x.floor {
			break
		}
		left -= x.absorb(r, n, floor, left)
	}
	for left > 0 && x.folded < len(x.above) {
		cost, whole := x.fold(x.folded, true, left)
		if whole {
			x.folded++
		}
		left -= cost
	}
	return left > 0
}

// fold folds a slot of T, or its next part.
func (x *incarnation) fold(i int, above bool, max int) (cost int, whole bool) {
	x.at, cost = x.blocks.Fold(&x.above[i].Slot, x.at, above, max)
	return cost + 1, x.at == 0
}

// small reports whether a slot is folded in one step of max blocks. A stored
// block is 16 bytes of a body.
func (s *Slot) small(max int) bool { return len(s.Body)/16 < max }

// follow folds a small slot that comes right after the floor while nothing lies
// above, without a clear: what a stream in order is made of.
func (x *incarnation) follow(r *Ring, s *Slot) (cost int) {
	_, cost = x.blocks.Fold(s, 0, false, wholeSlot)
	x.base = x.blocks.Sum()
	x.sums.put(s.Seq, x.base)
	x.floor = s.Seq
	x.note(s.Seq, s.TS)
	r.keep(x, *s)
	return cost + 1
}

// wholeSlot is more than there is.
const wholeSlot = math.MaxInt32

// jump closes every hole below the last clear of T: what was before it does
// not matter any more.
func (x *incarnation) jump() {
	last := -1
	for i := len(x.above) - 1; i >= 0 && last < 0; i-- {
		if x.above[i].clears {
			last = i
		}
	}
	if last < 0 {
		return
	}
	seq := x.above[last].Seq
	if x.folded > 0 {
		x.blocks.Settle() // whatever it is, the clear empties it
		x.folded = 0
	}
	x.stale = false
	x.dropAbove(last)
	x.anchor, x.floor = 1, seq-1 // nothing before it is missed, whoever met the stream when
	x.voids = nil
	x.lost = x.lost.within(seq, MaxSeq)
	x.sums = sumRing{} // they were about bases with other voids
}

// reach counts the slots of T that can be folded into the base, at most limit,
// and tells the floor then.
func (x *incarnation) reach(limit int) (n int, floor uint64) {
	floor = x.floor
	u := 0
	for n < limit {
		for u < len(x.lost) && x.lost[u].To <= floor {
			u++
		}
		switch {
		case n < len(x.above) && x.above[n].Seq == floor+1:
			n, floor = n+1, floor+1
		case u < len(x.lost) && x.lost[u].From <= floor+1:
			floor = x.lost[u].To
		default:
			return n, floor
		}
	}
	return n, floor
}

// absorb folds of the first n slots of T as many into the base as max blocks
// allow, and moves the floor behind the whole ones; to floor if that is all. A
// settled slot is folded already and costs 1; the sum is that after the last of
// them, so none is kept for those before it.
func (x *incarnation) absorb(r *Ring, n int, floor uint64, max int) (cost int) {
	done := 0
	for done < n && cost < max {
		if x.settled > 0 {
			x.settled--
			cost++
		} else {
			did, whole := x.fold(done, false, max-cost)
			if cost += did; !whole {
				break
			}
		}
		if x.settled == 0 {
			x.base = x.blocks.Sum()
			x.sums.put(x.above[done].Seq, x.base)
		}
		done++
	}
	switch {
	case done == n:
		x.book(r, n, floor)
	case done > 0:
		x.book(r, done, x.above[done-1].Seq)
	}
	return cost
}

// book moves the floor past the first n slots of T, which are folded, and what
// is declared lost between.
func (x *incarnation) book(r *Ring, n int, floor uint64) {
	for i := range n {
		s := &x.above[i]
		if s.clears {
			x.lastClear = s.Seq
		}
		r.keep(x, s.Slot)
	}
	if n == 0 || x.above[n-1].Seq != floor {
		x.sums.put(floor, x.base)
	}
	x.dropAbove(n)
	x.voids = x.voids.Union(x.lost.within(x.floor+1, floor))
	x.lost = x.lost.within(floor+1, MaxSeq)
	x.floor = floor
}

// dropAbove takes the first n slots off T.
func (x *incarnation) dropAbove(n int) {
	for i := range n {
		x.aboveBytes -= slotCost(&x.above[i].Slot)
	}
	rest := len(x.above) - n
	if rest <= max(n, 64) {
		copy(x.above, x.above[n:])
		clear(x.above[rest:])
		x.above = x.above[:rest]
	} else { // so that many a step costs no more than one
		clear(x.above[:n])
		x.above = x.above[n:]
	}
	if rest == 0 {
		x.aboveSet = x.aboveSet[:0]
	} else if n > 0 {
		x.aboveSet = x.aboveSet.within(x.above[0].Seq, MaxSeq)
	}
	x.folded = max(0, x.folded-n)
}
