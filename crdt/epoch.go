package crdt

import (
	"cmp"
	"slices"
)

// Times of epoch changes, ms.
const (
	ShadowMs   = 60_000 // an outranked incarnation can be republished so long
	bumpWindow = 60_000
)

// MaxEpoch bounds epochs, ms (the year 10889): one wild time stamp must not
// fence a stream off for ever.
const MaxEpoch = 1 << 48

const (
	maxBumps   = 2 // epoch changes in bumpWindow; one more is a quarantine
	maxShadows = 2 // kept at a time
)

// shadow is an outranked incarnation, invisible to readers.
type shadow struct {
	x     *incarnation
	until int64  // ms
	apart uint64 // the epoch whose process it was found not to be; 0: none
}

// enter brings the stream to the delta's epoch. It reports whether the delta
// is to be joined.
func (s *Stream) enter(d *Delta, nowMs int64, out *Outcome) bool {
	if d.Epoch == 0 || d.Epoch < s.fence {
		out.Stale = true
		return false
	}
	if d.Epoch > MaxEpoch {
		out.Invalid = len(d.Slots)
		return false
	}
	if s.cur != nil && d.Epoch == s.cur.epoch {
		return true
	}
	if !d.hasValid() { // nothing proves the newer incarnation
		out.Invalid = len(d.Slots)
		return false
	}
	if s.cur != nil && s.cur.sharesLog(d.Slots) && !s.cur.contradicts(d.timeline()) {
		s.relabel(d.Epoch)
		out.Merged = true
		return true
	}
	if !s.admit(d.Epoch, nowMs) {
		out.Quarantined = true
		return false
	}
	x := newIncarnation(d.Epoch, d.Anchor, s.cfg.Open(d.Epoch))
	s.replace(x, nowMs)
	out.NewEpoch = true
	return true
}

// relabel moves the present incarnation to a higher epoch that was minted for
// the same one.
func (s *Stream) relabel(epoch uint64) {
	for i := range s.shadows {
		if h := &s.shadows[i]; h.apart == s.cur.epoch {
			h.apart = epoch
		}
	}
	s.cur.epoch, s.fence = epoch, epoch
}

// admit raises the fence to an epoch and counts the change; false if the
// stream is quarantined: two processes behind one URL look like that. What a
// quarantined stream ignores raises no fence: it may be this peer's own
// detection, which nobody else ever heard of.
func (s *Stream) admit(epoch uint64, nowMs int64) bool {
	if epoch > max(s.fence, s.ignored) && s.fence != 0 {
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
	s.fence = max(s.fence, epoch)
	return true
}

func (s *Stream) prune(nowMs int64) {
	s.bumps = slices.DeleteFunc(s.bumps, func(at int64) bool { return nowMs-at >= bumpWindow })
}

// replace makes x the shown incarnation; the one before becomes a shadow.
func (s *Stream) replace(x *incarnation, nowMs int64) {
	s.cut = nil
	if s.cur != nil {
		s.shadows = append(s.shadows, shadow{x: s.cur, until: nowMs + ShadowMs})
		if len(s.shadows) > maxShadows {
			s.drop(s.shadows[0].x)
			s.shadows = slices.Delete(s.shadows, 0, 1)
		}
	}
	s.cur = x
	x.blocks.Show()
}

// Tick drops shadows whose time is over and ends a quarantine when a minute
// passed without a new epoch.
func (s *Stream) Tick(nowMs int64) {
	s.shadows = slices.DeleteFunc(s.shadows, func(h shadow) bool {
		if nowMs < h.until {
			return false
		}
		s.drop(h.x)
		return true
	})
	s.prune(nowMs)
	s.quarantined = s.quarantined && len(s.bumps) > 0
}

// Quarantined reports that the stream changed its epoch too often: everything
// about it is ignored until it has been calm for a minute.
func (s *Stream) Quarantined() bool { return s.quarantined }

// Shadows lists the epochs that Republish and Reunite could bring back, newest
// last; nil if there are none.
func (s *Stream) Shadows() []uint64 {
	var out []uint64
	for _, h := range s.shadows {
		out = append(out, h.x.epoch)
	}
	return out
}

// Witness is the newest slot that is still kept of a shadow. Told to other
// peers under the epoch the shadow gets, it proves to them that their own
// shadow is that incarnation. ok is false if none is kept.
func (s *Stream) Witness(epoch uint64) (slot Slot, ok bool) {
	i := s.shadowOf(epoch)
	if i < 0 {
		return Slot{}, false
	}
	x := s.shadows[i].x
	if n := len(x.above); n > 0 {
		return x.above[n-1].Slot, true
	}
	if n := len(x.recent); n > 0 {
		return x.recent[n-1], true
	}
	return Slot{}, false
}

func (s *Stream) shadowOf(epoch uint64) int {
	return slices.IndexFunc(s.shadows, func(h shadow) bool { return h.x.epoch == epoch })
}

// Republish undoes a false detection: an owner that proved that the engine
// never restarted brings a shadow back under the present epoch + 1 ms, with
// the slots that came since, as far as they can be of its process. It counts as
// a change of epoch. ok is false if the
// shadow is gone, or the stream is quarantined, also by this.
func (s *Stream) Republish(epoch uint64, nowMs int64) (out Outcome, ok bool) {
	s.finish()
	if s.shadowOf(epoch) < 0 || s.cur == nil || s.quarantined {
		return out, false
	}
	if !s.admit(s.cur.epoch+1, nowMs) {
		out.Quarantined = true
		return out, false
	}
	i := s.shadowOf(epoch)
	x, wrong := s.shadows[i].x, s.cur
	s.shadows = slices.Delete(s.shadows, i, i+1)
	s.cut, s.cur = nil, x
	fit := x.timeline()
	x.epoch = wrong.epoch + 1
	s.unite(x, wrong, &fit)
	x.blocks.Show()
	out.NewEpoch = true
	s.settle(&out, s.cfg.Hold)
	return out, true
}

// Reunite joins a shadow into the present incarnation, under its epoch: an
// owner proved that both are one, though no slot kept in common does. ok is
// false if the shadow is gone, or holds what the present one's process never
// said.
func (s *Stream) Reunite(epoch uint64) (out Outcome, ok bool) {
	s.finish()
	i := s.shadowOf(epoch)
	if i < 0 || s.cur == nil {
		return out, false
	}
	x := s.shadows[i].x
	if x.contradicts(s.cur.timeline()) || x.costs(s.cur) {
		return out, false
	}
	s.shadows = slices.Delete(s.shadows, i, i+1)
	x.epoch = s.cur.epoch
	s.merge(x)
	out.Merged = true
	s.settle(&out, s.cfg.Hold)
	return out, true
}

// contradicts reports whether times prove that an incarnation is not all of one
// process with another timeline's slots.
func (x *incarnation) contradicts(o timeline) bool {
	t := x.timeline()
	return t.contradicts(&o)
}

// costs reports whether an incarnation with a lower anchor would make the base
// of the one named right above it be given up, which holds more and whose slots
// are in no ring any more. An epoch one above another is given by an owner that
// knew that one and outranks it (Republish); two names of one process that were
// given apart are that near only if its batches are.
func (x *incarnation) costs(o *incarnation) bool {
	return x.epoch+1 == o.epoch && x.anchor < o.anchor && x.floor < o.floor && !o.reachesBack(o.anchor, &Context{})
}

// sharesLog reports whether some slot is kept here too, with the same engine
// time and content: then two epochs were minted for one incarnation. A batch
// without a time proves nothing.
func (x *incarnation) sharesLog(slots []Slot) bool {
	for i := range slots {
		if have, ok := x.get(slots[i].Seq); ok && have.TS != 0 && sameSlot(&have, &slots[i]) {
			return true
		}
	}
	return false
}

// mergeShadows joins shadows that the slots prove to be the present
// incarnation under another epoch. One that holds a slot of another process
// beside them stays what it is: its base cannot be taken apart.
func (s *Stream) mergeShadows(slots []Slot, out *Outcome) {
	for i := 0; i < len(s.shadows); {
		h := &s.shadows[i]
		x := h.x
		if h.apart == s.cur.epoch || !x.sharesLog(slots) {
			i++
			continue
		}
		if x.contradicts(s.cur.timeline()) || x.costs(s.cur) {
			h.apart = s.cur.epoch
			i++
			continue
		}
		s.shadows = slices.Delete(s.shadows, i, i+1)
		x.epoch = s.cur.epoch
		s.merge(x)
		out.Merged = true
	}
}

// merge joins another incarnation of the present epoch: the better base
// stays, and every slot known to either.
func (s *Stream) merge(o *incarnation) {
	x := s.cur
	if !o.better(x) {
		s.unite(x, o, nil)
		return
	}
	s.cut, s.cur = nil, o
	s.unite(o, x, nil)
	o.blocks.Show()
}

// better is the order of bases: lower anchor, larger floor, fewer voids, the
// lexicographically smaller voids, and, so that a fault heals to one winner,
// the larger (count, XOR).
func (x *incarnation) better(o *incarnation) bool {
	if c := compareBases(x.anchor, x.floor, x.voids, o.anchor, o.floor, o.voids); c != 0 {
		return c < 0
	}
	if x.base.Count != o.base.Count {
		return x.base.Count > o.base.Count
	}
	return x.base.Facts > o.base.Facts
}

// compareBases is negative if the first base is better by its context alone.
func compareBases(anchor, floor uint64, voids spans, anchor2, floor2 uint64, voids2 spans) int {
	return cmp.Or(
		cmp.Compare(anchor, anchor2),
		cmp.Compare(floor2, floor),
		cmp.Compare(voids.size(), voids2.size()),
		slices.CompareFunc(voids, voids2, compareSpans),
	)
}

func compareSpans(a, b Span) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// unite moves every slot and loss of l to w and frees l; of the slots only those
// that fit a timeline, if there is one.
func (s *Stream) unite(w, l *incarnation, fit *timeline) {
	var below []Slot
	all := fit == nil || !fit.grows()
	fits := func(s *Slot) bool { return all || fit.fits(s) }
	for _, slot := range s.cfg.Ring.release(l) {
		if !fits(&slot) {
			continue
		}
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
		if h := &l.above[i]; !fits(&h.Slot) {
			continue
		} else if h.Seq <= w.floor {
			below = append(below, h.Slot)
		} else {
			w.offer(h.Slot, h.clears)
		}
	}
	for _, span := range l.lost.union(l.voids) {
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
		if _, ok := w.get(slot.Seq); !ok && slot.Seq >= max(w.anchor, w.lastClear) && !w.voids.has(slot.Seq) {
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

// lowerAnchor joins the empty base that stands below a lower anchor, if every
// slot folded so far is still at hand; else only a snapshot can.
func (s *Stream) lowerAnchor(anchor uint64) {
	x := s.cur
	if anchor == 0 || anchor >= x.anchor || s.cut != nil || len(x.voids) > 0 {
		return
	}
	if !x.reachesBack(max(x.anchor, x.lastClear), &Context{}) {
		return
	}
	s.merge(newIncarnation(x.epoch, anchor, s.cfg.Open(x.epoch)))
}
