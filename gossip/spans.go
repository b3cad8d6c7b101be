package gossip

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// spans is a set of slot numbers as ascending, disjoint spans that do not
// touch. The functions below never change their arguments' elements in place
// unless said so.
type spans []crdt.Span

// add puts one span into the set in place, O(spans).
func (s spans) add(x crdt.Span) spans {
	if x.From > x.To {
		return s
	}
	if n := len(s); n > 0 && x.From >= s[n-1].From && x.From <= next(s[n-1].To) {
		s[n-1].To = max(s[n-1].To, x.To) // slots mostly come in order
		return s
	}
	i := 0
	for i < len(s) && next(s[i].To) < x.From {
		i++
	}
	j := i
	for j < len(s) && s[j].From <= next(x.To) {
		x.From, x.To = min(x.From, s[j].From), max(x.To, s[j].To)
		j++
	}
	return slices.Replace(s, i, j, x)
}

// next is n+1 without wrapping around.
func next(n uint64) uint64 {
	if n == ^uint64(0) {
		return n
	}
	return n + 1
}

// union adds all of o in place.
func (s spans) union(o []crdt.Span) spans {
	for _, x := range o {
		s = s.add(x)
	}
	return s
}

// minus returns what s holds and o does not, in a fresh slice. o must be
// ascending and disjoint.
func (s spans) minus(o []crdt.Span) spans {
	if len(o) == 0 || len(s) == 0 {
		return s
	}
	out := make(spans, 0, len(s)+1)
	j := 0
	for _, x := range s {
		for j < len(o) && o[j].To < x.From {
			j++
		}
		out = cut(out, x, o[j:])
	}
	return out
}

// cut appends what is left of x after taking away the spans of o, the first of
// which ends at or after the start of x.
func cut(out spans, x crdt.Span, o []crdt.Span) spans {
	for _, y := range o {
		if y.From > x.To {
			break
		}
		if y.From > x.From {
			out = append(out, crdt.Span{From: x.From, To: y.From - 1})
		}
		if y.To >= x.To {
			return out
		}
		x.From = y.To + 1
	}
	return append(out, x)
}

// within reports whether every number of s is in o.
func (s spans) within(o []crdt.Span) bool { return len(s.minus(o)) == 0 }

// clone copies the set.
func (s spans) clone() spans { return slices.Clone(s) }

// slotSpans is the set of the slots' numbers.
func slotSpans(slots []crdt.Slot) spans {
	var s spans
	for i := range slots {
		s = s.add(crdt.Span{From: slots[i].Seq, To: slots[i].Seq})
	}
	return s
}
