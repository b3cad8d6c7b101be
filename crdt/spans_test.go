package crdt_test

import (
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
