package crdt

import (
	"cmp"
	"slices"
)

// bumpWindow is how long a change of epoch counts, ms.
const bumpWindow = 60_000

// MaxEpoch bounds epochs: one wild number must not fence a stream off for
// ever. Whoever names processes decides what the bits of an epoch mean.
const MaxEpoch = 1 << 62

// maxBumps is how many epoch changes bumpWindow may hold; one more is a
// quarantine.
const maxBumps = 2

// enter brings the stream to the delta's epoch. It reports whether the delta
// is to be joined. A delta without slots and losses may open an epoch: another
// process is known to be there before its first batch came, and from then on
// the facts of the one before are not believed.
func (s *Stream) enter(d *Delta, nowMs int64, out *Outcome) bool {
	if d.Epoch == 0 || d.Epoch < s.Epoch() {
		out.Stale = true
		return false
	}
	if d.Epoch > MaxEpoch {
		out.Invalid = len(d.Slots)
		return false
	}
	if d.Epoch == s.Epoch() && !s.quarantined {
		return true
	}
	if len(d.Slots) > 0 && !d.hasValid() { // what it says is not to be believed
		out.Invalid = len(d.Slots)
		return false
	}
	if !s.admit(d.Epoch, nowMs) {
		out.Quarantined = true
		return false
	}
	s.replace(newIncarnation(d.Epoch, d.Anchor, s.cfg.Open(d.Epoch)))
	out.NewEpoch = true
	return true
}

// admit counts a change of epoch; false if the stream is quarantined: two
// processes behind one URL look like that. It forgets its facts and keeps the
// epoch that it had: what it ignores may be this peer's own detection, which
// nobody else ever heard of.
func (s *Stream) admit(epoch uint64, nowMs int64) bool {
	if at := s.Epoch(); at != 0 && epoch > max(at, s.ignored) {
		s.prune(nowMs)
		s.bumps = append(s.bumps, nowMs)
	}
	if !s.quarantined && len(s.bumps) > maxBumps {
		s.Forget()
		s.quarantined = true
	}
	s.bumps = s.bumps[max(0, len(s.bumps)-maxBumps-1):]
	if s.quarantined {
		s.ignored = max(s.ignored, epoch)
		return false
	}
	return true
}

func (s *Stream) prune(nowMs int64) {
	s.bumps = slices.DeleteFunc(s.bumps, func(at int64) bool { return nowMs-at >= bumpWindow })
}

// replace makes x the shown incarnation; the one before is gone for good.
func (s *Stream) replace(x *incarnation) {
	s.cut = nil
	if s.cur != nil {
		s.drop(s.cur)
	}
	s.cur = x
	x.blocks.Show()
}

// Tick ends a quarantine when a minute passed without a new epoch.
func (s *Stream) Tick(nowMs int64) {
	s.prune(nowMs)
	s.quarantined = s.quarantined && len(s.bumps) > 0
}

// Quarantined reports that the stream changed its epoch too often: everything
// about it is ignored until it has been calm for a minute.
func (s *Stream) Quarantined() bool { return s.quarantined }

// merge joins another incarnation of the present epoch: the better base
// stays, and every slot known to either.
func (s *Stream) merge(o *incarnation) {
	x := s.cur
	if !o.better(x) {
		s.unite(x, o)
		return
	}
	s.cut, s.cur = nil, o
	s.unite(o, x)
	o.blocks.Show()
}

// better is the order of bases: the one with which more slots are known after
// the join; then the order of contexts; and, so that a fault heals to one
// winner, the larger (count, XOR).
func (x *incarnation) better(o *incarnation) bool {
	a, b := x.standing(), o.standing()
	if c := compareBases(&a, &b); c != 0 {
		return c < 0
	}
	if x.base.Count != o.base.Count {
		return x.base.Count > o.base.Count
	}
	return x.base.Facts > o.base.Facts
}

// standing is what decides between two bases.
type standing struct {
	anchor, floor uint64
	voids         Spans
	kept          Spans // slots that can be folded on another base
}

func (x *incarnation) standing() standing {
	return standing{x.anchor, x.floor, x.voids, SpansOf(x.recent).Union(x.aboveSet)}
}

// standing is that of a context whose owner's ring is not known.
func (c *Context) standing() standing { return standing{c.Anchor, c.Floor, c.Voids, c.Above} }

// with is how many slots are known on top of base a when it is joined by b.
func (a *standing) with(b *standing) uint64 {
	folded := a.floor + 1 - a.anchor - a.voids.Size()
	return folded + Spans(a.kept.copy()).Union(b.kept).within(a.floor+1, MaxSeq).Size()
}

// compareBases is negative if the first base is better: with which more slots
// are known, then the one that gave up fewer, for what only holes lack can still
// come, then the lower anchor, the larger floor, and the lexicographically smaller
// voids.
func compareBases(a, b *standing) int {
	return cmp.Or(
		cmp.Compare(b.with(a), a.with(b)),
		cmp.Compare(a.voids.Size(), b.voids.Size()),
		cmp.Compare(a.anchor, b.anchor),
		cmp.Compare(b.floor, a.floor),
		slices.CompareFunc(a.voids, b.voids, compareSpans),
	)
}

func compareSpans(a, b Span) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// unite moves every slot and loss of l to w and frees l.
func (s *Stream) unite(w, l *incarnation) {
	var below []Slot
	for _, slot := range s.cfg.Ring.release(l) {
		if slot.Seq <= w.floor {
			below = append(below, slot)
			continue
		}
		clears, err := slot.inspect()
		if err != nil {
			panic("invariant: a kept slot was validated: " + err.Error())
		}
		w.offer(slot, clears)
	}
	for i := range l.above {
		if h := &l.above[i]; h.Seq <= w.floor {
			below = append(below, h.Slot)
		} else {
			w.offer(h.Slot, h.clears)
		}
	}
	for _, span := range l.lost.Union(l.voids) {
		w.lose(span)
	}
	s.remember(w, below)
	l.free()
}

// remember adds slots below the floor of w to the ring, so that deltas can
// still be cut from them.
func (s *Stream) remember(w *incarnation, below []Slot) {
	missing := below[:0]
	for _, slot := range below {
		if _, ok := w.get(slot.Seq); !ok && slot.Seq >= max(w.anchor, w.lastClear) && !w.voids.Has(slot.Seq) {
			missing = append(missing, slot)
		}
	}
	if len(missing) == 0 {
		return
	}
	all := append(s.cfg.Ring.release(w), missing...)
	slices.SortFunc(all, func(a, b Slot) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, slot := range all {
		s.cfg.Ring.keep(w, slot)
	}
}

// meet brings the anchor to a delta's: while nothing is known it is the
// delta's; else a lower one joins the empty base that stands below it, if every
// slot folded so far is still at hand. Else only a snapshot can.
func (s *Stream) meet(d *Delta) {
	x, anchor := s.cur, max(d.Anchor, 1)
	switch {
	case anchor == x.anchor || s.cut != nil:
	case x.floor+1 == x.anchor && len(x.above) == 0 && len(d.Slots) > 0:
		x.anchor, x.floor = anchor, anchor-1
		x.lost = x.lost.within(anchor, MaxSeq)
	case d.Anchor == 0 || anchor > x.anchor || len(x.voids) > 0:
	case x.reachesBack(max(x.anchor, x.lastClear), &Context{}):
		o := newIncarnation(x.epoch, anchor, s.cfg.Open(x.epoch))
		s.cur = o
		s.unite(o, x)
		o.blocks.Show()
	}
}
