package crdt

// Since cuts what the owner of context c lacks: kept slots, ascending, at most
// maxBytes of bodies (at least one slot), and losses. ok is false if only a
// snapshot helps: our base is better, and the ring does not reach back or c built
// over a hole. A delta without slots and losses means that c lacks nothing.
//
// Of two bases the owner of the higher floor judges exactly: what its ring keeps
// counts for the lower one, whose owner does not know of it.
func (s *Stream) Since(c *Context, maxBytes int) (d Delta, ok bool) {
	s.finish()
	x := s.cur
	d.Stream = s.cfg.ID
	if x == nil || c.Epoch > x.epoch {
		return d, true
	}
	d.Epoch, d.Anchor = x.epoch, x.anchor
	if c.Epoch < x.epoch {
		c = &Context{Anchor: x.anchor, Floor: x.anchor - 1}
	}
	if c.Anchor > x.anchor || x.betterOverVoids(c) {
		return d, false
	}
	from := c.Floor + 1
	if x.lastClear > c.Floor {
		from = max(from, x.lastClear) // what was before it does not matter
	}
	if !x.reachesBack(from, c) && x.beats(c) {
		return d, false
	}
	d.Slots = x.lacked(from, c, maxBytes)
	d.Lost = x.voids.Union(nil).within(from, MaxSeq).Union(x.lost).Minus(Spans(c.Lost)).Minus(Spans(c.Above))
	d.Lost = Spans(d.Lost).within(c.Floor+1, MaxSeq)
	return d, true
}

// betterOverVoids reports whether x really knows a slot that c declared lost
// and folded over, and x's base wins over c's.
func (x *incarnation) betterOverVoids(c *Context) bool {
	if len(c.Voids) == 0 || c.Epoch != x.epoch || x.lastClear > c.Floor ||
		!x.beats(c) {
		return false
	}
	voids := Spans(c.Voids)
	folded := voids.Minus(x.voids).within(x.anchor, x.floor)
	return len(folded) > 0 || voids.Minus(x.aboveSet).Size() < voids.Size()
}

// beats reports whether x's base wins over that of a context's owner, as far as
// the context tells.
func (x *incarnation) beats(c *Context) bool {
	a, b := x.standing(), c.standing()
	return compareBases(&a, &b) < 0
}

// reachesBack reports whether the ring still holds every known slot in
// [from, floor] that c lacks.
func (x *incarnation) reachesBack(from uint64, c *Context) bool {
	if from > x.floor {
		return true
	}
	kept := x.recent[x.recentFrom(from):]
	real := x.floor - from + 1 - x.voids.within(from, x.floor).Size()
	if uint64(len(kept)) == real {
		return true
	}
	need := Spans{{from, x.floor}}.Minus(x.voids).Minus(Spans(c.Above))
	return len(need.Minus(SpansOf(kept))) == 0
}

// lacked collects slots from from on that c does not know.
func (x *incarnation) lacked(from uint64, c *Context, maxBytes int) []Slot {
	var out []Slot
	above := Spans(c.Above)
	take := func(s *Slot) bool {
		if s.Seq <= c.Floor || above.Has(s.Seq) {
			return true
		}
		if maxBytes -= len(s.Body); maxBytes < 0 && len(out) > 0 {
			return false
		}
		out = append(out, *s)
		return true
	}
	kept := x.recent[x.recentFrom(from):]
	for i := range kept {
		if !take(&kept[i]) {
			return out
		}
	}
	for i := range x.above {
		if !take(&x.above[i].Slot) {
			return out
		}
	}
	return out
}

// Slots returns those of the wanted slots that are still kept, ascending for
// ascending spans, at most maxBytes of bodies (at least one slot).
func (s *Stream) Slots(epoch uint64, want []Span, maxBytes int) []Slot {
	s.finish()
	x := s.cur
	if x == nil || x.epoch != epoch {
		return nil
	}
	var out []Slot
	take := func(slot *Slot) bool {
		if maxBytes -= len(slot.Body); maxBytes < 0 && len(out) > 0 {
			return false
		}
		out = append(out, *slot)
		return true
	}
	for _, w := range want {
		for i := x.recentFrom(w.From); i < len(x.recent) && x.recent[i].Seq <= w.To; i++ {
			if !take(&x.recent[i]) {
				return out
			}
		}
		i, _ := x.find(w.From)
		for ; i < len(x.above) && x.above[i].Seq <= w.To; i++ {
			if !take(&x.above[i].Slot) {
				return out
			}
		}
	}
	return out
}
