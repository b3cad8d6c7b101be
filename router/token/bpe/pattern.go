package bpe

import (
	"strings"
	"unicode/utf8"
)

// finder returns the first match in s at or after byte i; start is -1 if there
// is none. No match is empty.
type finder interface {
	find(s string, i int) (start, end int)
}

// patternOf returns the finder of a regular expression, known by its exact text.
// There is no engine for others: each one here is written by hand and held
// against the original.
func patternOf(regex string) (finder, bool) {
	t := classes()
	// Some files write a line break as such where others escape it.
	switch strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(regex) {
	case contracted + "|" + plainLetters + `|\p{N}{1,3}|` + plainRest,
		`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`:
		return &sentence{t: t, lead: true, digits: 3, letters: letter, apart: letter | number}, true
	case contracted + "|" + plainLetters + `|\p{N}|` + plainRest:
		return &sentence{t: t, lead: true, digits: 1, letters: letter, apart: letter | number}, true
	case contracted + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + blanks:
		return &sentence{t: t, lead: true, digits: 1, letters: letter | mark, apart: letter | mark | number}, true
	case casedOf("", contracted+"?") + `|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + blanks:
		return &sentence{t: t, cased: true, tail: true, digits: 3, apart: letter | number, slash: true}, true
	case casedOf("", "") + `|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + blanks:
		return &sentence{t: t, cased: true, digits: 1, apart: letter | number, slash: true}, true
	case `[\p{Han}]+|` + casedOf(`&&[^\p{Han}]`, contracted+"?") + `|\p{N}{1,3}|` + plainRest:
		return &sentence{t: t, cased: true, han: true, tail: true, digits: 3, apart: letter | number}, true
	case gpt2Regex:
		return &gpt2{t}, true
	case `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` + blanks:
		return &deepseek{t}, true
	case `\p{N}{1,3}`:
		return &digits{t, 3}, true
	case `\p{N}`:
		return &digits{t, 1}, true
	case `[一-龥぀-ゟ゠-ヿ]+`:
		return cjk{}, true
	}
	return nil, false
}

const (
	contracted   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	plainLetters = `[^\r\n\p{L}\p{N}]?\p{L}+`
	blanks       = `\s*[\r\n]+|\s+(?!\S)|\s+`
	plainRest    = ` ?[^\s\p{L}\p{N}]+[\r\n]*|` + blanks
	gpt2Regex    = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// casedOf is the expression of o200k for words: capitals, then others; without is
// taken out of both classes.
func casedOf(without, contraction string) string {
	up, low := `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}`+without+`]`, `[\p{Ll}\p{Lm}\p{Lo}\p{M}`+without+`]`
	return `[^\r\n\p{L}\p{N}]?` + up + `*` + low + `+` + contraction + `|[^\r\n\p{L}\p{N}]?` + up + `+` + low + `*` + contraction
}

// sentence is the family of cl100k and o200k. Its alternatives in their order:
// a contraction (lead), a run of Han (han), a word with one character before it
// that is no line break, letter or number, then a contraction (tail); up to
// digits numbers; a space and what is no space and none of apart, then line
// breaks (and slashes); blanks.
type sentence struct {
	t          *classTable
	letters    class // what words are made of, if not cased
	apart      class
	digits     int
	lead, tail bool
	cased, han bool
	slash      bool
}

func (p *sentence) find(s string, i int) (int, int) {
	if i >= len(s) {
		return -1, -1
	}
	if end := p.match(s, i); end > i {
		return i, end
	}
	// Every character begins some alternative; invalid UTF-8 does not come here.
	_, n := utf8.DecodeRuneInString(s[i:])
	return i, i + n
}

func (p *sentence) match(s string, i int) int {
	c, n := p.t.at(s, i)
	if p.lead && s[i] == '\'' {
		if end := contraction(s, i, true); end > i {
			return end
		}
	}
	if p.han && c&han != 0 {
		return p.t.run(s, i, han)
	}
	before := i // where the word begins if a character goes before it
	if c&(newline|letter|number) == 0 {
		before = i + n
	}
	if end := p.word(s, i, before); end > i {
		if p.tail {
			return contraction(s, end, true)
		}
		return end
	}
	if c&number != 0 {
		return numbers(p.t, s, i, p.digits)
	}
	if end := p.other(s, i, c); end > i {
		return end
	}
	return blank(p.t, s, i, true)
}

// word returns the end of a word that begins at before or, if none does, at i; i
// if none does either.
func (p *sentence) word(s string, i, before int) int {
	if !p.cased {
		if end := p.t.run(s, before, p.letters); end > before {
			return end
		}
		return p.t.run(s, i, p.letters)
	}
	if end := p.lowered(s, before); end > before {
		return end
	}
	if end := p.lowered(s, i); end > i {
		return end
	}
	if end := p.raised(s, before); end > before {
		return end
	}
	return p.raised(s, i)
}

// casedRun is classTable.run, without Han if the pattern sets Han apart.
func (p *sentence) casedRun(s string, i int, want class) int {
	if !p.han {
		return p.t.run(s, i, want)
	}
	for {
		c, n := p.t.at(s, i)
		if c&want == 0 || c&han != 0 {
			return i
		}
		i += n
	}
}

const (
	capitals = upper | uncased | mark
	smalls   = lower | uncased | mark
)

// lowered matches capitals* smalls+. What is in both classes goes to the first
// and is given back from its end as far as the second needs one.
func (p *sentence) lowered(s string, i int) int {
	end := p.casedRun(s, i, capitals)
	if last := p.casedRun(s, end, smalls); last > end {
		return last
	}
	for at := end; at > i; {
		r, n := utf8.DecodeLastRuneInString(s[i:at])
		if p.t.of(r)&smalls != 0 {
			return at
		}
		at -= n
	}
	return i
}

// raised matches capitals+ smalls*.
func (p *sentence) raised(s string, i int) int {
	end := p.casedRun(s, i, capitals)
	if end == i {
		return i
	}
	return p.casedRun(s, end, smalls)
}

// other matches a space, if it is there, and what is no space and not apart.
func (p *sentence) other(s string, i int, c class) int {
	from := i
	if s[i] == ' ' {
		from = i + 1
	} else if c&(space|p.apart) != 0 {
		return i
	}
	end := p.t.runWithout(s, from, space|p.apart)
	if end == from {
		return i
	}
	for end < len(s) && (s[end] == '\r' || s[end] == '\n' || p.slash && s[end] == '/') {
		end++
	}
	return end
}

// numbers returns the end of at most most numbers from byte i on.
func numbers(t *classTable, s string, i, most int) int {
	for range most {
		c, n := t.at(s, i)
		if c&number == 0 {
			break
		}
		i += n
	}
	return i
}

// blank matches \s*[\r\n]+ (if breaks), \s+(?!\S) or \s+, the first that does.
func blank(t *classTable, s string, i int, breaks bool) int {
	end, broken, last := i, i, i // end of the run, of its last line break, begin of its last character
	for {
		c, n := t.at(s, end)
		if c&space == 0 {
			break
		}
		last = end
		end += n
		if c&newline != 0 {
			broken = end
		}
	}
	switch {
	case breaks && broken > i:
		return broken
	case end == len(s) || last == i:
		return end
	}
	return last
}

// contraction returns the end of an English contraction at byte i, else i. Any
// case, if fold: then the long s (U+017F) is an s.
func contraction(s string, i int, fold bool) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return i
	}
	if fold && strings.HasPrefix(s[i+1:], "ſ") {
		return i + 1 + len("ſ")
	}
	small := func(b byte) byte {
		if fold && 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		return b
	}
	first := small(s[i+1])
	switch first {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v', 'l':
		if i+2 < len(s) {
			second := small(s[i+2])
			if second == 'e' && first != 'l' || second == 'l' && first == 'l' {
				return i + 3
			}
		}
	}
	return i
}

// gpt2 is the expression of the ByteLevel pre-tokenizer.
type gpt2 struct{ t *classTable }

func (p *gpt2) find(s string, i int) (int, int) {
	if i >= len(s) {
		return -1, -1
	}
	if end := contraction(s, i, false); end > i {
		return i, end
	}
	from := i
	if s[i] == ' ' {
		from = i + 1
	}
	c, _ := p.t.at(s, from)
	switch {
	case from == len(s) || c&space != 0:
		return i, blank(p.t, s, i, false)
	case c&letter != 0:
		return i, p.t.run(s, from, letter)
	case c&number != 0:
		return i, p.t.run(s, from, number)
	}
	return i, p.t.runWithout(s, from, space|letter|number)
}

// deepseek is the third expression of DeepSeek V3. It leaves numbers, marks of
// control and the unassigned alone unless a letter follows.
type deepseek struct{ t *classTable }

func (p *deepseek) find(s string, i int) (int, int) {
	for i < len(s) {
		if end := p.match(s, i); end > i {
			return i, end
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
	}
	return -1, -1
}

func (p *deepseek) match(s string, i int) int {
	c, n := p.t.at(s, i)
	if s[i] < utf8.RuneSelf && c&(punct|symbol) != 0 {
		end := i + 1
		for end < len(s) && (s[end]|0x20) >= 'a' && (s[end]|0x20) <= 'z' {
			end++
		}
		if end > i+1 {
			return end
		}
	}
	from := i
	if c&(newline|letter|punct|symbol) == 0 {
		from = i + n
	}
	if end := p.t.run(s, from, letter|mark); end > from {
		return end
	}
	if c&(letter|mark) != 0 {
		return p.t.run(s, i, letter|mark)
	}
	from = i
	if s[i] == ' ' {
		from = i + 1
	}
	if end := p.t.run(s, from, punct|symbol); end > from {
		return p.t.run(s, end, newline)
	}
	return blank(p.t, s, i, true)
}

// digits is up to most numbers.
type digits struct {
	t    *classTable
	most int
}

func (p *digits) find(s string, i int) (int, int) {
	start := p.t.runWithout(s, i, number)
	if start == len(s) {
		return -1, -1
	}
	return start, numbers(p.t, s, start, p.most)
}

// cjk is a run of Chinese and Japanese characters.
type cjk struct{}

func (cjk) find(s string, i int) (int, int) {
	start, end := -1, -1
	for at, r := range s[i:] {
		in := r >= '一' && r <= '龥' || r >= 0x3040 && r <= 0x30ff
		if !in && start >= 0 {
			break
		}
		if in {
			if start < 0 {
				start = i + at
			}
			end = i + at + utf8.RuneLen(r)
		}
	}
	return start, end
}

// oneOf is a single character that has a class of want.
type oneOf struct {
	t    *classTable
	want class
}

func (p *oneOf) find(s string, i int) (int, int) {
	for i < len(s) {
		c, n := p.t.at(s, i)
		if c&p.want != 0 {
			return i, i + n
		}
		i += n
	}
	return -1, -1
}

// literal is a text, not empty.
type literal string

func (p literal) find(s string, i int) (int, int) {
	at := strings.Index(s[i:], string(p))
	if at < 0 {
		return -1, -1
	}
	return i + at, i + at + len(p)
}
