package follow

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Spans is a set of slot numbers: ascending, disjoint, not touching.
type Spans []crdt.Span

// Has reports whether seq is in the set. O(log n).
func (s Spans) Has(seq uint64) bool {
	i := s.search(seq)
	return i < len(s) && s[i].From <= seq
}

// search is the index of the first span that ends at or behind seq.
func (s Spans) search(seq uint64) int {
	i, _ := slices.BinarySearchFunc(s, seq, func(sp crdt.Span, seq uint64) int {
		if sp.To < seq {
			return -1
		}
		return 1
	})
	return i
}

// Add inserts [from, to]. O(1) at the end, else O(n).
func (s *Spans) Add(from, to uint64) {
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

// Remove takes [from, to] out.
func (s *Spans) Remove(from, to uint64) {
	if to < from {
		return
	}
	var out Spans
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

// Missing is [lo, hi] without the set.
func (s Spans) Missing(lo, hi uint64) Spans {
	if lo == 0 || hi < lo {
		return nil
	}
	out := Spans{{From: lo, To: hi}}
	for _, sp := range s {
		out.Remove(sp.From, sp.To)
	}
	return out
}

// Trim closes the lowest holes until at most n Spans are left.
func (s *Spans) Trim(n int) {
	if extra := len(*s) - n; extra > 0 {
		(*s)[extra].From = (*s)[0].From
		*s = slices.Delete(*s, 0, extra)
	}
}

// Count is how many numbers the set holds.
func (s Spans) Count() uint64 {
	var n uint64
	for _, sp := range s {
		n += sp.To - sp.From + 1
	}
	return n
}

// TrimHigh drops all but the n lowest Spans.
func (s *Spans) TrimHigh(n int) {
	if len(*s) > n {
		*s = (*s)[:n]
	}
}
