package kvevents

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// spans is a set of slot numbers: ascending, disjoint, not touching.
type spans []crdt.Span

// has reports whether seq is in the set. O(log n).
func (s spans) has(seq uint64) bool {
	i := s.search(seq)
	return i < len(s) && s[i].From <= seq
}

// search is the index of the first span that ends at or behind seq.
func (s spans) search(seq uint64) int {
	i, _ := slices.BinarySearchFunc(s, seq, func(sp crdt.Span, seq uint64) int {
		if sp.To < seq {
			return -1
		}
		return 1
	})
	return i
}

// add inserts [from, to]. O(1) at the end, else O(n).
func (s *spans) add(from, to uint64) {
	if from == 0 || to < from {
		return
	}
	lo := s.search(from - 1)
	hi := lo
	for hi < len(*s) && (*s)[hi].From-1 <= to {
		from, to = min(from, (*s)[hi].From), max(to, (*s)[hi].To)
		hi++
	}
	*s = slices.Replace(*s, lo, hi, crdt.Span{From: from, To: to})
}

// remove takes [from, to] out.
func (s *spans) remove(from, to uint64) {
	if to < from {
		return
	}
	var out spans
	for _, sp := range *s {
		if sp.To < from || sp.From > to {
			out = append(out, sp)
			continue
		}
		if sp.From < from {
			out = append(out, crdt.Span{From: sp.From, To: from - 1})
		}
		if sp.To > to {
			out = append(out, crdt.Span{From: to + 1, To: sp.To})
		}
	}
	*s = out
}

// missing is [lo, hi] without the set.
func (s spans) missing(lo, hi uint64) spans {
	if lo == 0 || hi < lo {
		return nil
	}
	out := spans{{From: lo, To: hi}}
	for _, sp := range s {
		out.remove(sp.From, sp.To)
	}
	return out
}

// trim closes the lowest holes until at most n spans are left.
func (s *spans) trim(n int) {
	if extra := len(*s) - n; extra > 0 {
		(*s)[extra].From = (*s)[0].From
		*s = slices.Delete(*s, 0, extra)
	}
}

// count is how many numbers the set holds.
func (s spans) count() uint64 {
	var n uint64
	for _, sp := range s {
		n += sp.To - sp.From + 1
	}
	return n
}

// trimHigh drops all but the n lowest spans.
func (s *spans) trimHigh(n int) {
	if len(*s) > n {
		*s = (*s)[:n]
	}
}
