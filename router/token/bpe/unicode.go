package bpe

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// unicodeForm is NFC, NFD, NFKC or NFKD. What is in the form already passes at
// once; the rest is done here, because x/text puts U+034F into long runs of marks
// (its stream-safe format) and tokenizers does not.
type unicodeForm struct {
	form    norm.Form
	compose bool
}

func (n unicodeForm) normalize(s string) string {
	if isASCII(s) {
		return s
	}
	done := n.form.QuickSpanString(s)
	if done == len(s) {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + len(s)/8)
	var run []rune
	for {
		out.WriteString(s[:done])
		if s = s[done:]; s == "" {
			return out.String()
		}
		end := n.segment(s)
		run = n.rewrite(run[:0], s[:end])
		for _, r := range run {
			out.WriteRune(r)
		}
		s = s[end:]
		done = n.form.QuickSpanString(s)
	}
}

// segment returns the end of the first character of s and of those that may join
// it or change places with it.
func (n unicodeForm) segment(s string) int {
	_, end := utf8.DecodeRuneInString(s)
	for end < len(s) {
		p := n.form.PropertiesString(s[end:])
		if p.BoundaryBefore() {
			break
		}
		end += p.Size()
	}
	return end
}

// rewrite appends s, a segment, in the form.
func (n unicodeForm) rewrite(run []rune, s string) []rune {
	decomposed := norm.NFD
	if n.form == norm.NFKC || n.form == norm.NFKD {
		decomposed = norm.NFKD
	}
	for i, r := range s {
		if d := decomposed.PropertiesString(s[i:]).Decomposition(); d != nil {
			run = append(run, []rune(string(d))...)
		} else {
			run = appendJamo(run, r)
		}
	}
	order(run)
	if n.compose {
		run = composed(run)
	}
	return run
}

// order sorts marks by their class, between characters of class 0.
func order(run []rune) {
	for i := 0; i < len(run); {
		end := i
		for end < len(run) && combining(run[end]) > 0 {
			end++
		}
		slices.SortStableFunc(run[i:end], func(a, b rune) int { return int(combining(a)) - int(combining(b)) })
		i = end + 1
	}
}

// composed joins what has a character of its own, as the Unicode standard tells
// (3.11, D117).
func composed(run []rune) []rune {
	out, starter, before := run[:0], -1, uint8(0)
	for _, r := range run {
		class := combining(r)
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || before < class) {
			if c, ok := pair(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		out = append(out, r)
		before = class
		if class == 0 {
			starter = len(out) - 1
		}
	}
	return out
}

func combining(r rune) uint8 {
	if r < 0x300 {
		return 0
	}
	var b [utf8.UTFMax]byte
	return norm.NFD.Properties(b[:utf8.EncodeRune(b[:], r)]).CCC()
}

// Hangul syllables are computed, not listed (Unicode standard, 3.12).
const (
	hangul, hangulEnd          = 0xac00, 0xd7a4
	leads, vowels, tails       = 0x1100, 0x1161, 0x11a7
	leadCount                  = 19
	vowelCount, tailCount rune = 21, 28
)

func appendJamo(run []rune, r rune) []rune {
	if r < hangul || r >= hangulEnd {
		return append(run, r)
	}
	r -= hangul
	run = append(run, leads+r/(vowelCount*tailCount), vowels+r/tailCount%vowelCount)
	if t := r % tailCount; t > 0 {
		run = append(run, tails+t)
	}
	return run
}

// pair returns the character that a and b compose.
func pair(a, b rune) (rune, bool) {
	switch {
	case a >= leads && a < leads+leadCount && b >= vowels && b < vowels+vowelCount:
		return hangul + ((a-leads)*vowelCount+b-vowels)*tailCount, true
	case a >= hangul && a < hangulEnd && (a-hangul)%tailCount == 0 && b > tails && b < tails+tailCount:
		return a + b - tails, true
	}
	c, ok := pairs()[[2]rune{a, b}]
	return c, ok
}

// pairs is every composition but those of Hangul, built when first needed from
// what composed characters decompose into.
var pairs = sync.OnceValue(func() map[[2]rune]rune {
	m := map[[2]rune]rune{}
	for r := rune(0xc0); r <= unicode.MaxRune; r++ {
		if r >= hangul && r < hangulEnd {
			continue
		}
		s := string(r)
		p := norm.NFC.PropertiesString(s)
		d := []rune(string(p.Decomposition()))
		if len(d) < 2 || norm.NFC.String(s) != s {
			continue // does not decompose, or is excluded from composition
		}
		head := []rune(norm.NFC.String(string(d[:len(d)-1])))
		if len(head) == 1 {
			m[[2]rune{head[0], d[len(d)-1]}] = r
		}
	}
	return m
})
