package bpe

import "strings"

// stage is one pre-tokenizer. It hands every piece of s, in order, to the stage
// next. first: s begins where the whole text does.
type stage interface {
	apply(e *encoder, next int, s string, first bool)
}

// behavior is what becomes of the matches of a split.
type behavior uint8

const (
	isolated behavior = iota
	removed
	contiguous
	mergedWithPrevious
	mergedWithNext
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "Contiguous": contiguous,
	"MergedWithPrevious": mergedWithPrevious, "MergedWithNext": mergedWithNext,
}

// split cuts at the matches of a pattern.
type split struct {
	finder
	behavior behavior
	invert   bool // what matches and what does not change places
}

func (p *split) apply(e *encoder, next int, s string, first bool) {
	c := cutter{e: e, next: next, s: s, first: first, behavior: p.behavior}
	for at := 0; at < len(s); {
		start, end := p.find(s, at)
		if start < 0 {
			start, end = len(s), len(s)
		}
		if start > at {
			c.span(at, start, p.invert)
		}
		if end > start {
			c.span(start, end, !p.invert)
		}
		at = end
	}
	c.flush()
}

// cutter joins the spans of a split as its behavior says.
type cutter struct {
	e          *encoder
	next       int
	s          string
	first      bool
	behavior   behavior
	start, end int // the span that is not handed on yet; none if empty
	match      bool
}

func (c *cutter) span(start, end int, match bool) {
	joined := false
	switch c.behavior {
	case contiguous:
		joined = match == c.match
	case mergedWithPrevious:
		joined = match && !c.match
	case mergedWithNext:
		joined = !match && c.match
	}
	if joined && c.end > c.start {
		c.end, c.match = end, match
		return
	}
	c.flush()
	if c.behavior != removed || !match {
		c.start, c.end = start, end
	}
	c.match = match
}

func (c *cutter) flush() {
	if c.end > c.start {
		c.e.stage(c.next, c.s[c.start:c.end], c.first && c.start == 0)
	}
	c.start = c.end
}

// metaspace writes spaces as a visible character, puts one before the text and
// cuts before each.
type metaspace struct {
	mark   string
	prefix uint8
	split  *split // nil: one piece
}

const (
	never uint8 = iota
	onlyFirst
	always
)

func (p *metaspace) apply(e *encoder, next int, s string, first bool) {
	s = strings.ReplaceAll(s, " ", p.mark)
	if (p.prefix == always || p.prefix == onlyFirst && first) && !strings.HasPrefix(s, p.mark) {
		s = p.mark + s
	}
	if p.split == nil {
		e.stage(next, s, first)
		return
	}
	p.split.apply(e, next, s, first)
}

// byteLevel is the pre-tokenizer by which a vocabulary is one of bytes. It is the
// last.
type byteLevel struct {
	prefixSpace bool
	split       *split // nil: one piece
}

func (p *byteLevel) apply(e *encoder, next int, s string, first bool) {
	if p.prefixSpace && s[0] != ' ' {
		s = " " + s
	}
	if p.split == nil {
		e.stage(next, s, first)
		return
	}
	p.split.apply(e, next, s, first)
}
