package crdt

// normalise brings an incarnation into canonical form: everything foldable is
// folded into the base, the rest of T lies on top in order (I1, I3). Cost: the
// slots folded; with something new below the overlay, also the slots of it.
func (x *incarnation) normalise(r *Ring) {
	x.jump()
	n, floor := x.reach()
	x.absorb(r, n, floor)
	x.overlay()
}

// follow folds a slot that comes right after the floor while nothing lies
// above, without a clear: what a stream in order is made of.
func (x *incarnation) follow(r *Ring, s *Slot) {
	x.blocks.Fold(s, false)
	x.base = x.blocks.Sum()
	x.sums.put(s.Seq, x.base)
	x.floor = s.Seq
	x.note(s.Seq, s.TS)
	r.keep(x, *s)
}

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
	x.floor = seq - 1
	x.voids = nil
	x.lost = x.lost.within(seq, MaxSeq)
	x.sums = sumRing{} // they were about bases with other voids
}

// reach counts the slots of T that can be folded into the base, and tells the
// floor then.
func (x *incarnation) reach() (n int, floor uint64) {
	floor = x.floor
	u := 0
	for {
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
}

// absorb folds the first n slots of T into the base and moves the floor.
func (x *incarnation) absorb(r *Ring, n int, floor uint64) {
	if floor == x.floor {
		return
	}
	done := 0
	switch {
	case x.folded == 0 || n == 0:
	case !x.stale && n >= x.folded: // the overlay is the next part of the base
		x.blocks.Settle()
		done, x.folded = x.folded, 0
	default:
		x.rewind()
	}
	for i := done; i < n; i++ {
		x.blocks.Fold(&x.above[i].Slot, false)
		x.sums.put(x.above[i].Seq, x.blocks.Sum())
	}
	for i := range n {
		s := &x.above[i]
		if s.clears {
			x.lastClear = s.Seq
		}
		r.keep(x, s.Slot)
	}
	if n > 0 {
		x.base = x.blocks.Sum()
	}
	x.sums.put(floor, x.base)
	x.dropAbove(n)
	x.voids = x.voids.union(x.lost.within(x.floor+1, floor))
	x.lost = x.lost.within(floor+1, MaxSeq)
	x.floor = floor
}

// dropAbove takes the first n slots off T.
func (x *incarnation) dropAbove(n int) {
	for i := range n {
		x.aboveBytes -= slotCost(&x.above[i].Slot)
	}
	rest := copy(x.above, x.above[n:])
	clear(x.above[rest:])
	x.above = x.above[:rest]
	if rest == 0 {
		x.aboveSet = x.aboveSet[:0]
	} else if n > 0 {
		x.aboveSet = x.aboveSet.within(x.above[0].Seq, MaxSeq)
	}
	x.folded = max(0, x.folded-n)
}

func (x *incarnation) rewind() {
	if x.folded > 0 {
		x.blocks.Rewind()
	}
	x.folded, x.stale = 0, false
}

// overlay folds the rest of T on top of the base.
func (x *incarnation) overlay() {
	if x.stale {
		x.rewind()
	}
	for ; x.folded < len(x.above); x.folded++ {
		x.blocks.Fold(&x.above[x.folded].Slot, true)
	}
}
