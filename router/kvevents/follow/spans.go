package follow

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// number is the set of one slot.
func number(seq uint64) crdt.Span { return crdt.Span{From: seq, To: seq} }

// closed closes the lowest holes until at most n spans are left, in place.
func closed(s crdt.Spans, n int) crdt.Spans {
	if extra := len(s) - n; extra > 0 {
		s[extra].From = s[0].From
		s = slices.Delete(s, 0, extra)
	}
	return s
}
