package openai

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unquote decodes a checked JSON string, quotes included.
func unquote(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if i := skipPlain(inner, 0); i == len(inner) {
		return string(inner)
	}
	return string(appendUnquoted(make([]byte, 0, len(inner)), raw))
}

// appendUnquoted appends the text of a checked JSON string, quotes included.
// A surrogate without its other half becomes U+FFFD, as in encoding/json.
func appendUnquoted(dst, raw []byte) []byte {
	b := raw[1 : len(raw)-1]
	for {
		i := skipPlain(b, 0)
		dst = append(dst, b[:i]...)
		if i == len(b) {
			return dst
		}
		b = b[i:]
		if b[1] != 'u' {
			dst = append(dst, unescape(b[1]))
			b = b[2:]
			continue
		}
		r := hexRune(b)
		b = b[6:]
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(b) >= 6 && b[0] == '\\' && b[1] == 'u' {
				low = hexRune(b)
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				b = b[6:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// unescape is the byte that a one-letter escape stands for.
func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// hexRune reads the four hex digits after \u.
func hexRune(b []byte) rune {
	var r rune
	for _, c := range b[2:6] {
		d := c - '0'
		if d >= 10 {
			d = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(d)
	}
	return r
}
