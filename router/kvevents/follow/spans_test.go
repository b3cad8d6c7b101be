package follow

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSpansAgainstSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Spans
		set := map[uint64]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "ops") {
			from := rapid.Uint64Range(1, 40).Draw(t, "from")
			to := from + rapid.Uint64Range(0, 6).Draw(t, "len")
			add := rapid.Bool().Draw(t, "add")
			if add {
				s.Add(from, to)
			} else {
				s.Remove(from, to)
			}
			for x := from; x <= to; x++ {
				set[x] = add
			}
		}
		n := uint64(0)
		for x := uint64(1); x < 60; x++ {
			if s.Has(x) != set[x] {
				t.Fatalf("%v: has(%d) = %v", s, x, s.Has(x))
			}
			if set[x] {
				n++
			}
		}
		if s.Count() != n {
			t.Fatalf("%v: count %d, want %d", s, s.Count(), n)
		}
		for i := 1; i < len(s); i++ {
			if s[i].From <= s[i-1].To+1 {
				t.Fatalf("%v touches", s)
			}
		}
		for x := uint64(1); x < 60; x++ {
			if m := s.Missing(3, 50); m.Has(x) != (x >= 3 && x <= 50 && !set[x]) {
				t.Fatalf("missing %v of %v: %d", m, s, x)
			}
		}
	})
}
