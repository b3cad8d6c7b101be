package gossip

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// known is the set of slots whose content context c stands for.
func known(c *crdt.Context) crdt.Spans {
	var s crdt.Spans
	if from := max(c.Anchor, 1); c.Floor >= from {
		s = crdt.Spans{{From: from, To: c.Floor}}.Minus(c.Voids)
	}
	return slices.Clone(s).Union(c.Above)
}

// settled is known and what is declared lost.
func settled(c *crdt.Context) crdt.Spans {
	return known(c).Union(c.Voids).Union(c.Lost)
}

// lacks reports whether the owner of context mine could learn something from
// the owner of theirs: whose slots it has not, whatever the anchors. Of two
// bases that began apart the one stays with which more is known
// (crdt.Stream), so that one side at least learns. It is the only question the
// pull side asks.
func lacks(mine, theirs *crdt.Context) bool {
	switch {
	case theirs.Epoch != mine.Epoch:
		return theirs.Epoch > mine.Epoch
	case theirs.Epoch == 0:
		return false
	case 0 < theirs.Anchor && theirs.Anchor < mine.Anchor && mine.Floor < mine.Anchor:
		return true // of bases that know as much the lower anchor stays; ours has nothing
	case sameSpans(mine, theirs) && theirs.Floor <= mine.Floor:
		return false
	}
	if !known(theirs).In(known(mine)) {
		return true
	}
	return !slices.Clone(crdt.Spans(theirs.Lost)).Union(theirs.Voids).In(settled(mine))
}

// sameSpans reports whether two contexts differ in their floor at most.
func sameSpans(a, b *crdt.Context) bool {
	return a.Anchor == b.Anchor && slices.Equal(a.Voids, b.Voids) &&
		slices.Equal(a.Above, b.Above) && slices.Equal(a.Lost, b.Lost)
}

// holes is what context c misses below its highest known slot.
func holes(c *crdt.Context) crdt.Spans {
	if len(c.Above) == 0 {
		return nil
	}
	top := c.Above[len(c.Above)-1].To
	return crdt.Spans{{From: c.Floor + 1, To: top}}.Minus(slices.Clone(crdt.Spans(c.Above)).Union(c.Lost))
}

// comparable reports whether the bases of two contexts describe the same slots
// up to floor f, so that their sums there must be equal.
func comparableAt(a, b *crdt.Context, f uint64) bool {
	if a.Epoch != b.Epoch || a.Epoch == 0 || a.Anchor != b.Anchor {
		return false
	}
	return slices.Equal(voidsTo(a, f), voidsTo(b, f))
}

// voidsTo is the voids of c up to f.
func voidsTo(c *crdt.Context, f uint64) crdt.Spans {
	var out crdt.Spans
	for _, v := range c.Voids {
		if v.From > f {
			break
		}
		out = append(out, crdt.Span{From: v.From, To: min(v.To, f)})
	}
	return out
}
