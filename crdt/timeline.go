package crdt

import (
	"cmp"
	"slices"
)

// timeline is what the numbers and times of an incarnation's slots tell about
// the process they are of. They grow together in one process; so two timelines
// that do not, together, are of two processes. Incarnations that have a slot in
// common and contradict each other all the same cannot be one: one of them holds
// slots of both.
type timeline struct {
	epoch  uint64 // ms; slot anchor was said by then
	anchor uint64
	marks  []mark // ascending; slots without a time have none
}

// mark is the number and the engine's time (microseconds) of a slot.
type mark struct {
	seq uint64
	ts  int64
}

// timeline is that of the kept slots, of the lowest one that came and of the
// highest known. O(slots kept).
func (x *incarnation) timeline() timeline {
	t := timeline{x.epoch, x.anchor, make([]mark, 0, len(x.recent)+len(x.above)+2)}
	if len(x.recent) == 0 || x.bottom < x.recent[0].Seq {
		t.mark(x.bottom, x.bottomTS)
	}
	t.add(x.recent)
	for i := range x.above {
		t.mark(x.above[i].Seq, x.above[i].TS)
	}
	if n := len(t.marks); n == 0 || t.marks[n-1].seq < x.top {
		t.mark(x.top, x.topTS)
	}
	return t
}

// timeline is that of a delta's slots.
func (d *Delta) timeline() timeline {
	t := timeline{epoch: d.Epoch, anchor: d.Anchor}
	t.add(d.Slots)
	slices.SortFunc(t.marks, func(a, b mark) int { return cmp.Compare(a.seq, b.seq) })
	return t
}

func (t *timeline) add(slots []Slot) {
	for i := range slots {
		t.mark(slots[i].Seq, slots[i].TS)
	}
}

func (t *timeline) mark(seq uint64, ts int64) {
	if ts != 0 {
		t.marks = append(t.marks, mark{seq, ts})
	}
}

// contradicts reports whether two timelines prove two processes, between them or
// already in one. A clock that was set back looks the same. O(both).
func (t *timeline) contradicts(o *timeline) bool {
	return !t.begins(o) || !o.begins(t) || !together(t.marks, o.marks)
}

// together reports whether the times of two lists grow in one.
func together(a, b []mark) bool {
	last := mark{}
	for len(a) > 0 || len(b) > 0 {
		if len(a) == 0 || len(b) > 0 && b[0].seq < a[0].seq {
			a, b = b, a
		}
		if a[0].ts < last.ts || a[0].seq == last.seq && a[0].ts != last.ts {
			return false
		}
		last, a = a[0], a[1:]
	}
	return true
}

// grows reports whether no time is before that of a lower number.
func (t *timeline) grows() bool {
	return slices.IsSortedFunc(t.marks, func(a, b mark) int { return cmp.Compare(a.ts, b.ts) })
}

// begins reports whether the other's last slot up to this one's anchor was said
// in time: an epoch is never before the time of the slot it was made from.
func (t *timeline) begins(o *timeline) bool {
	i, same := o.search(t.anchor)
	if same {
		i++
	}
	return i == 0 || uint64(o.marks[i-1].ts)/1000 <= t.epoch
}

// fits reports whether a slot may be of the process that a timeline is of.
// O(log n), for one that grows.
func (t *timeline) fits(s *Slot) bool {
	i, same := t.search(s.Seq)
	switch {
	case s.TS == 0:
		return true
	case same:
		return t.marks[i].ts == s.TS
	case s.Seq <= t.anchor && uint64(s.TS)/1000 > t.epoch:
		return false
	}
	return (i == 0 || t.marks[i-1].ts <= s.TS) && (i == len(t.marks) || s.TS <= t.marks[i].ts)
}

// search is where the mark of a number is, or would be.
func (t *timeline) search(seq uint64) (i int, same bool) {
	return slices.BinarySearchFunc(t.marks, seq, func(m mark, seq uint64) int { return cmp.Compare(m.seq, seq) })
}
