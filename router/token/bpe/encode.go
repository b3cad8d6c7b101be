package bpe

import (
	"unicode/utf8"
)

// encoder is one text on its way through a Tokenizer.
type encoder struct {
	t   *Tokenizer
	out []uint32
	scratch
}

// Encode appends the tokens of text to dst: those that tokenizers (Rust) gives,
// with what the file puts around a text if addSpecial. Invalid UTF-8 is read as
// U+FFFD, a byte each, as Go's JSON decoder does. It may be called from any number
// of goroutines.
func (t *Tokenizer) Encode(dst []uint32, text string, addSpecial bool) []uint32 {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	e := t.encoders.Get().(*encoder)
	e.out = dst
	if addSpecial {
		e.out = append(e.out, t.before...)
	}
	e.extract(&t.verbatim, text, true, false)
	if addSpecial {
		e.out = append(e.out, t.after...)
	}
	dst, e.out = e.out, nil
	e.trim()
	t.encoders.Put(e)
	return dst
}

// keptScratch bounds what an encoder keeps after a text, in tokens of one piece.
const keptScratch = 1 << 16

func (e *encoder) trim() {
	if cap(e.ids) > keptScratch || cap(e.heap) > keptScratch {
		e.ids, e.heap, e.ranks, e.made, e.next, e.prev = nil, nil, nil, nil, nil, nil
	}
}

// extract cuts the tokens of set out of s and goes on with what lies between: it
// is normalized and looked through again or, if it is, cut into pieces.
func (e *encoder) extract(set *addedSet, s string, first, normalized bool) {
	done, at := 0, 0
	for {
		t, start, end := set.find(s, at)
		if t == nil {
			break
		}
		at = end
		if t.refused(s, start, end) {
			continue
		}
		start, end = t.reach(s, start, end, done)
		if done < start {
			e.between(s[done:start], first && done == 0, normalized)
		}
		e.out = append(e.out, t.id)
		// Where a token took space in which another one is found, the second
		// begins before done: then done goes back, as in tokenizers.
		done = end
	}
	if done < len(s) {
		e.between(s[done:], first && done == 0, normalized)
	}
}

func (e *encoder) between(s string, first, normalized bool) {
	if normalized {
		e.stage(0, s, first)
		return
	}
	for _, n := range e.t.normalizers {
		s = n.normalize(s)
	}
	e.extract(&e.t.normalized, s, first, true)
}

// stage hands s to the pre-tokenizer with this number; after the last, to the
// model.
func (e *encoder) stage(number int, s string, first bool) {
	switch {
	case s == "":
	case number < len(e.t.stages):
		e.t.stages[number].apply(e, number+1, s, first)
	default:
		e.out = e.t.model.tokenize(e.out, &e.scratch, s)
	}
}

// Cuts appends the positions at which text can be cut without changing its
// tokens: for every position p (and for all of them together)
//
//	Encode(text[:p]) + Encode(text[p:]) == Encode(text)
//
// where only the first part gets what the file puts before a text, and only the
// last what it puts behind. They lie behind added tokens that are matched in the
// text itself, take no space after them and need no end of a word. So the tokens
// of text[:p] can be kept under that text, whatever follows it.
func (t *Tokenizer) Cuts(dst []int, text string) []int {
	if !t.cuttable || !utf8.ValidString(text) {
		return dst
	}
	for at := 0; ; {
		token, start, end := t.verbatim.find(text, at)
		if token == nil {
			return dst
		}
		at = end
		if token.refused(text, start, end) || token.rstrip || token.singleWord {
			continue
		}
		if t.verbatim.words {
			// A single word right behind the cut would see no word before it.
			if last, _ := utf8.DecodeLastRuneInString(text[:end]); classes().of(last)&word != 0 {
				continue
			}
		}
		dst = append(dst, end)
	}
}
