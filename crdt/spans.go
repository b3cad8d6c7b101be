package crdt

import "slices"

// spans is a set of slot numbers: ascending, disjoint spans that do not touch
// each other (the canonical form). Functions never change their arguments'
// elements unless said so.
type spans []Span

// add puts one span into the set, in place. O(spans), O(1) at the end.
func (s spans) add(x Span) spans {
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

// union adds every span of o, in place.
func (s spans) union(o []Span) spans {
	for _, x := range o {
		s = s.add(x)
	}
	return s
}

// minus returns what s has and o has not, in a fresh set. Both are canonical.
func (s spans) minus(o spans) spans {
	out := make(spans, 0, len(s))
	j := 0
	for _, x := range s {
		for j < len(o) && o[j].To < x.From {
			j++
		}
		for k := j; k < len(o) && o[k].From <= x.To && x.From <= x.To; k++ {
			if o[k].From > x.From {
				out = append(out, Span{x.From, o[k].From - 1})
			}
			x.From = after(o[k].To)
			if o[k].To >= x.To {
				x.From = after(x.To)
			}
		}
		if x.From <= x.To {
			out = append(out, x)
		}
	}
	return out
}

// has reports whether n is in the set. O(log spans).
func (s spans) has(n uint64) bool {
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
func (s spans) within(from, to uint64) spans {
	var out spans
	for _, x := range s {
		x.From, x.To = max(x.From, from), min(x.To, to)
		if x.From <= x.To {
			out = append(out, x)
		}
	}
	return out
}

// meets reports whether the sets have a number in common.
func (s spans) meets(o spans) bool { return s.size() != s.minus(o).size() }

// size counts the numbers in the set.
func (s spans) size() (n uint64) {
	for _, x := range s {
		n += x.To - x.From + 1
	}
	return n
}

// copy is the set in memory of its own; nil if it is empty.
func (s spans) copy() []Span { return append([]Span(nil), s...) }

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

// spansOf is the set of the slots' numbers; slots are ascending.
func spansOf(slots []Slot) spans {
	var out spans
	for i := range slots {
		out = out.add(Span{slots[i].Seq, slots[i].Seq})
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
