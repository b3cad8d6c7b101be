package crdt_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// TestOverlapIsWhatBothHold compares with membership, number by number.
func TestOverlapIsWhatBothHold(t *testing.T) {
	holds := func(spans []crdt.Span, n uint64) bool {
		for _, s := range spans {
			if s.From <= n && n <= s.To {
				return true
			}
		}
		return false
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSpans(t, 1), drawSpans(t, 1)
		both := crdt.Overlap(a, b)
		for n := uint64(0); n < 60; n++ {
			if want := holds(a, n) && holds(b, n); holds(both, n) != want {
				t.Fatalf("%d in %v: %v, want %v of %v and %v", n, both, !want, want, a, b)
			}
		}
	})
}

const universe = 24

// drawSet draws a set by adding spans and taking others away, and holds it
// against the numbers one by one.
func drawSet(t *rapid.T, name string) crdt.Spans {
	var s crdt.Spans
	numbers := map[uint64]bool{}
	for range rapid.IntRange(0, 12).Draw(t, name) {
		x := crdt.Span{From: rapid.Uint64Range(1, universe).Draw(t, "from")}
		x.To = min(universe, x.From+rapid.Uint64Range(0, 5).Draw(t, "len"))
		add := rapid.IntRange(0, 2).Draw(t, "add") > 0
		if add {
			s = s.Add(x)
		} else {
			s = s.Minus(crdt.Spans{x})
		}
		for i := x.From; i <= x.To; i++ {
			numbers[i] = add
		}
	}
	for i := uint64(0); i <= universe+1; i++ {
		if s.Has(i) != numbers[i] {
			t.Fatalf("%v: %d is in it: %v", s, i, s.Has(i))
		}
	}
	return s
}

func checkCanonical(t *rapid.T, s crdt.Spans) {
	for i, x := range s {
		if x.From > x.To || i > 0 && x.From <= s[i-1].To+1 {
			t.Fatalf("not canonical: %v", s)
		}
	}
}

func TestSpansEqualSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSet(t, "a"), drawSet(t, "b")
		minus, union := a.Minus(b), slices.Clone(a).Union(b)
		checkCanonical(t, a)
		checkCanonical(t, union)
		checkCanonical(t, minus)
		inside, size := true, uint64(0)
		for i := uint64(0); i <= universe+1; i++ {
			if minus.Has(i) != (a.Has(i) && !b.Has(i)) || union.Has(i) != (a.Has(i) || b.Has(i)) {
				t.Fatalf("%v, %v: minus %v, union %v", a, b, minus, union)
			}
			inside = inside && (!a.Has(i) || b.Has(i))
			if a.Has(i) {
				size++
			}
		}
		if a.In(b) != inside || a.Size() != size {
			t.Fatalf("%v in %v: %v; size %d, not %d", a, b, !inside, a.Size(), size)
		}
	})
}

func TestSpansAtTheEdges(t *testing.T) {
	top := ^uint64(0)
	all := crdt.Spans(nil).Add(crdt.Span{From: 0, To: top})
	if got := all.Add(crdt.Span{From: 5, To: top}); len(got) != 1 || got[0] != (crdt.Span{From: 0, To: top}) {
		t.Errorf("add to everything: %v", got)
	}
	if got := all.Minus(all); len(got) != 0 {
		t.Errorf("everything minus itself: %v", got)
	}
	want := crdt.Span{From: 0, To: top - 1}
	if got := all.Minus(crdt.Spans{{From: top, To: top}}); len(got) != 1 || got[0] != want {
		t.Errorf("everything but the last: %v", got)
	}
	if got := crdt.Spans(nil).Add(crdt.Span{From: 3, To: 2}); len(got) != 0 {
		t.Errorf("an empty span: %v", got)
	}
}
