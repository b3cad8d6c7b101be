package crdt

import (
	"testing"

	"pgregory.net/rapid"
)

// story is a process's slots, numbered from 1, with times that grow.
func story(t *rapid.T, label string, from int64, n int) (out []Slot) {
	for i := range n {
		from += rapid.Int64Range(0, 2_000).Draw(t, label)
		out = append(out, Slot{Seq: uint64(i) + 1, TS: from})
	}
	return out
}

// heard is an incarnation that knows some slots of a story from an anchor on and
// keeps some of those it knows.
func heard(t *rapid.T, label string, s []Slot) *incarnation {
	anchor := rapid.IntRange(1, len(s)).Draw(t, label+" anchor")
	epoch := uint64(s[anchor-1].TS)/1000 + rapid.Uint64Range(0, 1).Draw(t, label+" clamped")
	x := newIncarnation(epoch, uint64(anchor), nil)
	for _, slot := range s[anchor-1:] {
		if rapid.Bool().Draw(t, label+" knows") {
			x.offer(slot, false)
		}
	}
	for len(x.above) > 0 && rapid.IntRange(0, 3).Draw(t, label+" forgets") == 0 {
		x.floor, x.above = x.above[0].Seq, x.above[1:]
	}
	return x
}

// However little two owners heard of a process, and whatever was forgotten of
// it, what they know does not contradict each other.
func TestOneProcessNeverContradictsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := story(t, "step", 1_000_000, rapid.IntRange(1, 20).Draw(t, "n"))
		a, b := heard(t, "a", s), heard(t, "b", s)
		if a.contradicts(b.timeline()) {
			t.Fatalf("%+v contradicts %+v", a.timeline(), b.timeline())
		}
		tl := a.timeline()
		for _, slot := range s {
			if !tl.fits(&slot) {
				t.Fatalf("slot %d at %d does not fit %+v", slot.Seq, slot.TS, tl)
			}
		}
	})
}

// Timelines contradict each other exactly if some slot of one and some slot of
// the other do, or one of them and the other's epoch; and a slot fits exactly if
// it alone contradicts nothing.
func TestTimelinesEqualTheDumbTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := story(t, "step", 1_000_000, rapid.IntRange(1, 12).Draw(t, "n"))
		young := story(t, "young step", old[len(old)-1].TS+1, rapid.IntRange(1, 12).Draw(t, "young n"))
		a, b := heard(t, "a", old), heard(t, "b", young)
		if stray := rapid.IntRange(0, len(old)).Draw(t, "stray"); stray > 0 {
			b.offer(old[stray-1], false) // b is a mix
		}
		x, y := a.timeline(), b.timeline()
		want := !y.grows() || late(x.marks, &y) || late(y.marks, &x)
		for _, m := range x.marks {
			for _, n := range y.marks {
				want = want || apart(m, n)
			}
		}
		if x.contradicts(&y) != want || y.contradicts(&x) != want {
			t.Fatalf("%+v and %+v: contradict %v and %v, want %v", x, y, x.contradicts(&y), y.contradicts(&x), want)
		}
		for _, slot := range young {
			m := mark{slot.Seq, slot.TS}
			fits := !late([]mark{m}, &x)
			for _, n := range x.marks {
				fits = fits && !apart(m, n)
			}
			if x.fits(&slot) != fits {
				t.Fatalf("%+v fits %+v: %v, want %v", m, x, !fits, fits)
			}
		}
	})
}

func apart(a, b mark) bool {
	return a.seq == b.seq && a.ts != b.ts || a.seq < b.seq && a.ts > b.ts || a.seq > b.seq && a.ts < b.ts
}

// late reports whether a mark up to an anchor is later than the epoch.
func late(marks []mark, t *timeline) bool {
	for _, m := range marks {
		if m.seq <= t.anchor && uint64(m.ts/1000) > t.epoch {
			return true
		}
	}
	return false
}

// An epoch tells when the first slot was said, though that one is forgotten: no
// slot before it was said later.
func TestAnEpochTellsOfItsFirstSlot(t *testing.T) {
	x, o := newIncarnation(1000, 5, nil), newIncarnation(900, 1, nil)
	x.offer(Slot{Seq: 9, TS: 2_000_000}, false)
	o.offer(Slot{Seq: 4, TS: 1_000_999}, false)
	if x.contradicts(o.timeline()) || o.contradicts(x.timeline()) {
		t.Error("slot 4 was said in time for slot 5")
	}
	late := newIncarnation(900, 1, nil)
	late.offer(Slot{Seq: 4, TS: 1_500_000}, false)
	if !x.contradicts(late.timeline()) || !late.contradicts(x.timeline()) {
		t.Error("slot 4 was said after the time that names slot 5")
	}
}

// A slot without a time proves nothing.
func TestSlotsWithoutATimeContradictNothing(t *testing.T) {
	a, b := newIncarnation(9, 1, nil), newIncarnation(9, 1, nil)
	for seq := uint64(1); seq < 5; seq++ {
		a.offer(Slot{Seq: seq}, false)
		b.offer(Slot{Seq: seq, TS: 9_000}, false)
	}
	tl := b.timeline()
	if tl.contradicts(&timeline{}) || a.contradicts(tl) || !tl.fits(&Slot{Seq: 1}) {
		t.Fatal("it proved something")
	}
}
