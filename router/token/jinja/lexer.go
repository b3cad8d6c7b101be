package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

type kind uint8

const (
	tData kind = iota
	tVarBegin
	tVarEnd
	tBlockBegin
	tBlockEnd
	tName
	tString
	tInt
	tFloat
	tOp
	tEOF
)

type token struct {
	kind kind
	text string
	pos  int
}

type lexer struct {
	src    string
	pos    int
	tokens []token
	// lineStart: the last tag ended with a newline, or nothing was read yet.
	lineStart bool
}

// lex cuts a template into tokens, with white space taken off as trim_blocks
// and lstrip_blocks do.
func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(source, "\n"), lineStart: true}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.add(tEOF, "")
	return l.tokens, nil
}

func (l *lexer) add(k kind, text string) {
	l.tokens = append(l.tokens, token{k, text, l.pos})
}

func (l *lexer) fault(format string, args ...any) error {
	return fmt.Errorf("jinja: line %d: %s", lineAt(l.src, l.pos), fmt.Sprintf(format, args...))
}

func lineAt(src string, pos int) int { return 1 + strings.Count(src[:min(pos, len(src))], "\n") }

// next reads the text up to the next tag, and the tag.
func (l *lexer) next() error {
	rest := l.src[l.pos:]
	at := 0
	for {
		i := strings.IndexByte(rest[at:], '{')
		if i < 0 || at+i+1 >= len(rest) {
			l.data(rest)
			l.pos = len(l.src)
			return nil
		}
		at += i
		if c := rest[at+1]; c == '{' || c == '%' || c == '#' {
			break
		}
		at++
	}
	text, open := rest[:at], rest[at+1]
	l.pos += at + 2
	sign := byte(0)
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		sign = l.src[l.pos]
		l.pos++
	}
	l.data(l.strip(text, sign, open))
	if open == '#' {
		return l.comment()
	}
	if open == '%' {
		if name, end := l.rawTag(l.pos, "raw"); name {
			return l.raw(end)
		}
		l.add(tBlockBegin, "")
		return l.inside("%}", tBlockEnd)
	}
	l.add(tVarBegin, "")
	return l.inside("}}", tVarEnd)
}

func (l *lexer) data(text string) {
	if text != "" {
		l.add(tData, text)
	}
}

func (l *lexer) strip(text string, sign, open byte) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || open == '{' {
		return text
	}
	cut := strings.LastIndexByte(text, '\n') + 1
	if (cut > 0 || l.lineStart) && strings.TrimLeftFunc(text[cut:], isSpace) == "" {
		return text[:cut]
	}
	return text
}

func (l *lexer) comment() error {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		return l.fault("a comment does not end")
	}
	body := l.src[l.pos : l.pos+i]
	l.pos += i + 2
	l.after(strings.HasSuffix(body, "-"), strings.HasSuffix(body, "+"))
	return nil
}

// after takes off what follows a block or comment, and notes whether a line
// starts.
func (l *lexer) after(minus, plus bool) {
	rest := l.src[l.pos:]
	switch {
	case minus:
		l.pos += len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case !plus && strings.HasPrefix(rest, "\n"):
		l.pos++
	}
	l.lineStart = l.src[l.pos-1] == '\n'
}

// rawTag tells whether the tag whose inside begins at pos is NAME, and where
// its closing sign stands.
func (l *lexer) rawTag(pos int, name string) (bool, int) {
	rest := strings.TrimLeftFunc(l.src[pos:], isSpace)
	rest, ok := strings.CutPrefix(rest, name)
	if !ok {
		return false, 0
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	if strings.HasPrefix(rest, "%}") || strings.HasPrefix(rest, "-%}") || strings.HasPrefix(rest, "+%}") {
		return true, len(l.src) - len(rest)
	}
	return false, 0
}

func (l *lexer) raw(end int) error {
	if l.src[end] != '%' {
		return l.fault("white space control of raw is not supported")
	}
	l.pos = end + 2
	for at := l.pos; ; {
		i := strings.Index(l.src[at:], "{%")
		if i < 0 {
			return l.fault("raw does not end")
		}
		at += i
		if ok, end := l.rawTag(at+2, "endraw"); ok && l.src[end] == '%' {
			l.lineStart = false
			l.data(l.strip(l.src[l.pos:at], 0, '%'))
			l.pos = end + 2
			l.after(false, false)
			return nil
		}
		at += 2
		if strings.HasPrefix(l.src[at:], "-") || strings.HasPrefix(l.src[at:], "+") {
			if ok, _ := l.rawTag(at+1, "endraw"); ok {
				return l.fault("white space control of endraw is not supported")
			}
		}
	}
}

var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// inside reads the tokens of a tag up to its end.
func (l *lexer) inside(end string, k kind) error {
	var open []byte
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		if len(open) == 0 {
			if minus := strings.HasPrefix(rest, "-"+end); minus || strings.HasPrefix(rest, end) || k == tBlockEnd && strings.HasPrefix(rest, "+"+end) {
				plus := rest[0] == '+'
				l.add(k, "")
				l.pos += len(end)
				if minus || plus {
					l.pos++
				}
				if k == tVarEnd && !minus {
					l.lineStart = false
					return nil
				}
				l.after(minus, plus)
				return nil
			}
		}
		c, size := utf8.DecodeRuneInString(rest)
		if isSpace(c) {
			l.pos += size
			continue
		}
		if err := l.token(rest, &open); err != nil {
			return err
		}
	}
	return l.fault("a tag does not end with %s", end)
}

func (l *lexer) token(rest string, open *[]byte) error {
	switch c := rest[0]; {
	case c == '\'' || c == '"':
		return l.quoted(rest)
	case c >= '0' && c <= '9':
		return l.number(rest)
	case isName(c):
		n := 1
		for n < len(rest) && isName(rest[n]) {
			n++
		}
		if n < len(rest) && rest[n] >= 0x80 {
			return l.fault("names beyond ASCII are not supported")
		}
		l.add(tName, rest[:n])
		l.pos += n
		return nil
	}
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			*open = append(*open, op[0]+1+op[0]/'['&1)
		case ")", "]", "}":
			if n := len(*open); n == 0 || (*open)[n-1] != op[0] {
				return l.fault("unexpected %s", op)
			}
			*open = (*open)[:len(*open)-1]
		}
		l.add(tOp, op)
		l.pos += len(op)
		return nil
	}
	return l.fault("unexpected character %q", rest[:1])
}

func isName(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func (l *lexer) number(rest string) error {
	n := digits(rest)
	k := tInt
	if m := digits(rest[min(n+1, len(rest)):]); n < len(rest) && rest[n] == '.' && m > 0 {
		k, n = tFloat, n+1+m
	}
	if n < len(rest) && isName(rest[n]) || k == tInt && n > 1 && rest[0] == '0' {
		return l.fault("the number at %.12q is not supported", rest)
	}
	if t := len(l.tokens); k == tFloat && t > 0 && l.tokens[t-1].text == "." {
		return l.fault("the number at %.12q is not supported", rest)
	}
	l.add(k, rest[:n])
	l.pos += n
	return nil
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\\': "\\", '\'': "'", '"': `"`, '\n': ""}

func (l *lexer) quoted(rest string) error {
	var b strings.Builder
	for i := 1; i < len(rest); i++ {
		c := rest[i]
		if c == rest[0] {
			l.add(tString, b.String())
			l.pos += i + 1
			return nil
		}
		if c != '\\' || i+1 >= len(rest) {
			b.WriteByte(c)
			continue
		}
		i++
		if text, ok := escapes[rest[i]]; ok {
			b.WriteString(text)
			continue
		}
		n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[i]]
		if n == 0 {
			if rest[i] == 'N' || rest[i] >= '0' && rest[i] <= '7' || rest[i] >= 0x80 {
				return l.fault("the escape \\%c is not supported", rest[i])
			}
			b.WriteByte('\\')
			b.WriteByte(rest[i])
			continue
		}
		if i+1+n > len(rest) {
			return l.fault("an escape is cut")
		}
		code, err := strconv.ParseUint(rest[i+1:i+1+n], 16, 32)
		if err != nil || code > 0x10ffff || !utf8.ValidRune(rune(code)) {
			return l.fault("the escape \\%s is no character", rest[i:i+1+n])
		}
		b.WriteRune(rune(code))
		i += n
	}
	return l.fault("a string does not end")
}
