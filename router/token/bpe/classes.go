package bpe

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what the patterns ask of a character, as bits.
type class uint16

const (
	upper   class = 1 << iota // Lu, Lt
	lower                     // Ll
	uncased                   // Lm, Lo
	mark                      // M
	number                    // N
	space                     // White_Space, \s
	newline                   // \r, \n; these are space too
	punct                     // P
	symbol                    // S
	han                       // the script, letters and others
	word                      // \w of the engines that read added tokens

	letter = upper | lower | uncased
)

// classTable has the classes of all characters: pages of 256, most of them equal.
type classTable struct {
	ascii [utf8.RuneSelf]class
	page  [(unicode.MaxRune + 1) / 256]uint16
	pages [][256]class
}

// classes is built once, at the first Load: a table and not unicode.Is, which
// takes as long as the rest of a token.
var classes = sync.OnceValue(func() *classTable {
	all := make([]class, unicode.MaxRune+1)
	add := func(c class, tables ...*unicode.RangeTable) {
		for _, t := range tables {
			for _, r := range t.R16 {
				for x := int(r.Lo); x <= int(r.Hi); x += int(r.Stride) {
					all[x] |= c
				}
			}
			for _, r := range t.R32 {
				for x := int(r.Lo); x <= int(r.Hi); x += int(r.Stride) {
					all[x] |= c
				}
			}
		}
	}
	add(upper, unicode.Lu, unicode.Lt)
	add(lower, unicode.Ll)
	add(uncased, unicode.Lm, unicode.Lo)
	add(mark, unicode.M)
	add(number, unicode.N)
	add(space, unicode.White_Space)
	add(punct, unicode.P)
	add(symbol, unicode.S)
	add(han, unicode.Han)
	add(word, unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control)
	all['\r'] |= newline
	all['\n'] |= newline
	t := &classTable{}
	copy(t.ascii[:], all)
	known := map[[256]class]uint16{}
	for p := range t.page {
		content := [256]class(all[p*256:])
		n, ok := known[content]
		if !ok {
			n = uint16(len(t.pages))
			known[content] = n
			t.pages = append(t.pages, content)
		}
		t.page[p] = n
	}
	return t
})

func (t *classTable) of(r rune) class { return t.pages[t.page[r>>8]][r&0xff] }

// at returns the class of the character at byte i of s and its length; 0, 0 at
// the end of s.
func (t *classTable) at(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return t.ascii[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return t.of(r), n
}

// run returns the end of the characters from byte i on that have a class of want.
func (t *classTable) run(s string, i int, want class) int {
	for {
		c, n := t.at(s, i)
		if c&want == 0 { // also the end
			return i
		}
		i += n
	}
}

// runWithout returns the end of the characters from byte i on that have no class
// of not.
func (t *classTable) runWithout(s string, i int, not class) int {
	for {
		c, n := t.at(s, i)
		if n == 0 || c&not != 0 {
			return i
		}
		i += n
	}
}
