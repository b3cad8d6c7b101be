package crdt

import "slices"

// Spans is a set of slot numbers: ascending, disjoint spans that do not touch
// each other (the canonical form). Functions never change their arguments'
// elements unless said so.
type Spans []Span

// Add puts one span into the set, in place; an empty one changes nothing.
// O(spans), O(1) at the end.
func (s Spans) Add(x Span) Spans {
	if x.From > x.To {
		return s
	}
	if n := len(s); n == 0 || x.From > after(s[n-1].To) {
		return append(s, x)
	} else if x.From >= s[n-1].From {
		s[n-1].To = max(s[n-1].To, x.To)
		return s
	}
	i := 0
	for after(s[i].To) < x.From {
		i++
	}
	j := i
	for j < len(s) && s[j].From <= after(x.To) {
		x.From, x.To = min(x.From, s[j].From), max(x.To, s[j].To)
		j++
	}
	return slices.Replace(s, i, j, x)
}

// after is n+1 without wrapping around.
func after(n uint64) uint64 { return max(n, n+1) }

// Union adds every span of o, in place.
func (s Spans) Union(o []Span) Spans {
	for _, x := range o {
		s = s.Add(x)
	}
	return s
}

// Minus returns what s holds and o, ascending and disjoint, does not: in a fresh
// set, or s itself if one of them is empty. O(spans of both).
func (s Spans) Minus(o []Span) Spans {
	if len(o) == 0 || len(s) == 0 {
		return s
	}
	out := make(Spans, 0, len(s)+1)
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
func cut(out Spans, x Span, o []Span) Spans {
	for _, y := range o {
		if y.From > x.To {
			break
		}
		if y.From > x.From {
			out = append(out, Span{x.From, y.From - 1})
		}
		if y.To >= x.To {
			return out
		}
		x.From = y.To + 1
	}
	return append(out, x)
}

// Has reports whether n is in the set. O(log spans).
func (s Spans) Has(n uint64) bool {
	i, found := slices.BinarySearchFunc(s, n, func(x Span, n uint64) int {
		switch {
		case x.To < n:
			return -1
		case x.From > n:
			return 1
		}
		return 0
	})
	return found && i < len(s)
}

// within clips the set to [from, to], in a fresh set.
func (s Spans) within(from, to uint64) Spans {
	var out Spans
	for _, x := range s {
		x.From, x.To = max(x.From, from), min(x.To, to)
		if x.From <= x.To {
			out = append(out, x)
		}
	}
	return out
}

// meets reports whether the sets have a number in common.
func (s Spans) meets(o []Span) bool { return s.Size() != s.Minus(o).Size() }

// In reports whether every number of s is in o.
func (s Spans) In(o []Span) bool { return len(s.Minus(o)) == 0 }

// Size counts the numbers in the set.
func (s Spans) Size() (n uint64) {
	for _, x := range s {
		n += x.To - x.From + 1
	}
	return n
}

// copy is the set in memory of its own; nil if it is empty.
func (s Spans) copy() []Span { return append([]Span(nil), s...) }

// canonical reports whether s is ascending, disjoint, without touching spans,
// and inside [1, MaxSeq].
func canonical(s []Span) bool {
	for i, x := range s {
		if x.From == 0 || x.From > x.To || x.To > MaxSeq || i > 0 && x.From <= s[i-1].To+1 {
			return false
		}
	}
	return true
}

// SpansOf is the set of the slots' numbers.
func SpansOf(slots []Slot) Spans {
	var out Spans
	for i := range slots {
		out = out.Add(Span{slots[i].Seq, slots[i].Seq})
	}
	return out
}

// Overlap returns the ranges that lie in both lists. O(len(a) len(b)).
func Overlap(a, b []Span) []Span {
	var out []Span
	for _, x := range a {
		for _, y := range b {
			if from, to := max(x.From, y.From), min(x.To, y.To); from <= to {
				out = append(out, Span{from, to})
			}
		}
	}
	return out
}
