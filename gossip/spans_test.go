package gossip

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"pgregory.net/rapid"
)

// The tests below hold spans and contexts against sets of small numbers.

const universe = 24

type numbers map[uint64]bool

func drawSpans(t *rapid.T, name string) spans {
	var s spans
	for range rapid.IntRange(0, 6).Draw(t, name) {
		from := rapid.Uint64Range(1, universe).Draw(t, "from")
		s = s.add(crdt.Span{From: from, To: min(universe, from+rapid.Uint64Range(0, 5).Draw(t, "len"))})
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

func checkCanonical(t *rapid.T, s spans) {
	for i, x := range s {
		if x.From > x.To || i > 0 && x.From <= s[i-1].To+1 {
			t.Fatalf("not canonical: %v", s)
		}
	}
}

func TestSpansEqualSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSpans(t, "a"), drawSpans(t, "b")
		minus, union := a.minus(b), a.clone().union(b)
		checkCanonical(t, a)
		checkCanonical(t, union)
		na, nb, nm, nu := numbersOf(a), numbersOf(b), numbersOf(minus), numbersOf(union)
		within := true
		for i := uint64(1); i <= universe; i++ {
			if nm[i] != (na[i] && !nb[i]) || nu[i] != (na[i] || nb[i]) {
				t.Fatalf("%v, %v: minus %v, union %v", a, b, minus, union)
			}
			within = within && (!na[i] || nb[i])
		}
		if a.within(b) != within {
			t.Fatalf("%v within %v: %v", a, b, !within)
		}
	})
}

func TestSpansAtTheEdges(t *testing.T) {
	top := ^uint64(0)
	all := spans(nil).add(crdt.Span{From: 0, To: top})
	if got := all.add(crdt.Span{From: 5, To: top}); len(got) != 1 || got[0] != (crdt.Span{From: 0, To: top}) {
		t.Errorf("add to everything: %v", got)
	}
	if got := all.minus(all); len(got) != 0 {
		t.Errorf("everything minus itself: %v", got)
	}
	want := crdt.Span{From: 0, To: top - 1}
	if got := all.minus(spans{{From: top, To: top}}); len(got) != 1 || got[0] != want {
		t.Errorf("everything but the last: %v", got)
	}
	if got := spans(nil).add(crdt.Span{From: 3, To: 2}); len(got) != 0 {
		t.Errorf("an empty span: %v", got)
	}
}

// drawContext draws a canonical context of epoch 1.
func drawContext(t *rapid.T, name string) crdt.Context {
	anchor := rapid.Uint64Range(1, 4).Draw(t, name+" anchor")
	floor := rapid.Uint64Range(anchor-1, universe/2).Draw(t, name+" floor")
	c := crdt.Context{Epoch: 1, Anchor: anchor, Floor: floor}
	base := spans(nil).add(crdt.Span{From: anchor, To: floor})
	c.Voids = base.minus(base.minus(drawSpans(t, "voids")))
	over := drawSpans(t, "above").minus(spans{{From: 1, To: floor + 1}})
	lost := drawSpans(t, "lost").minus(spans{{From: 1, To: floor + 1}})
	c.Above, c.Lost = over, lost.minus(over)
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
		for i := range numbersOf(append(spans(b.Lost).clone(), b.Voids...)) {
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
