package gossip

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"pgregory.net/rapid"
)

// The tests below hold contexts against sets of small numbers.

const universe = 24

type numbers map[uint64]bool

func drawSpans(t *rapid.T, name string) crdt.Spans {
	var s crdt.Spans
	for range rapid.IntRange(0, 6).Draw(t, name) {
		from := rapid.Uint64Range(1, universe).Draw(t, "from")
		s = s.Add(crdt.Span{From: from, To: min(universe, from+rapid.Uint64Range(0, 5).Draw(t, "len"))})
	}
	return s
}

func numbersOf(s []crdt.Span) numbers {
	n := make(numbers)
	for _, x := range s {
		for i := x.From; i <= x.To; i++ {
			n[i] = true
		}
	}
	return n
}

// drawContext draws a canonical context of epoch 1.
func drawContext(t *rapid.T, name string) crdt.Context {
	anchor := rapid.Uint64Range(1, 4).Draw(t, name+" anchor")
	floor := rapid.Uint64Range(anchor-1, universe/2).Draw(t, name+" floor")
	c := crdt.Context{Epoch: 1, Anchor: anchor, Floor: floor}
	base := crdt.Spans(nil).Add(crdt.Span{From: anchor, To: floor})
	c.Voids = base.Minus(base.Minus(drawSpans(t, "voids")))
	over := drawSpans(t, "above").Minus(crdt.Spans{{From: 1, To: floor + 1}})
	lost := drawSpans(t, "lost").Minus(crdt.Spans{{From: 1, To: floor + 1}})
	c.Above, c.Lost = over, lost.Minus(over)
	return c
}

func TestLacksIsWhatAJoinWouldChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawContext(t, "a"), drawContext(t, "b")
		ka, kb, sa := numbersOf(known(&a)), numbersOf(known(&b)), numbersOf(settled(&a))
		want := b.Anchor < a.Anchor && a.Floor < a.Anchor // an empty base yields to a lower anchor
		for i := range kb {
			want = want || !ka[i]
		}
		for i := range numbersOf(slices.Concat(b.Lost, b.Voids)) {
			want = want || !sa[i]
		}
		if got := lacks(&a, &b); got != want {
			t.Fatalf("%+v lacks of %+v: %v, want %v", a, b, got, want)
		}
		if lacks(&a, &a) {
			t.Fatal("a context lacks something of itself")
		}
		later := crdt.Context{Epoch: 2, Anchor: 9}
		if !lacks(&a, &later) || lacks(&later, &a) || lacks(&a, &crdt.Context{}) {
			t.Fatal("the later epoch wins whole")
		}
	})
}

func TestHolesAreWhatIsNeitherKnownNorLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawContext(t, "c")
		top := uint64(0)
		for _, s := range c.Above {
			top = s.To
		}
		s, got := numbersOf(settled(&c)), numbersOf(holes(&c))
		for i := c.Floor + 1; i <= universe; i++ {
			if want := i < top && !s[i]; got[i] != want {
				t.Fatalf("%+v: hole at %d: %v, want %v", c, i, got[i], want)
			}
		}
	})
}
