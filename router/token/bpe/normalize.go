package bpe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// normalizer rewrites a text before it is cut. None makes it more than growth
// times as long (and Prepend adds its own length).
type normalizer interface {
	normalize(s string) string
}

type replace struct{ from, to string }

func (n replace) normalize(s string) string { return strings.ReplaceAll(s, n.from, n.to) }

type prepend string

func (n prepend) normalize(s string) string {
	if s == "" {
		return s
	}
	return string(n) + s
}

type strip struct{ left, right bool }

func (n strip) normalize(s string) string {
	if n.left {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
	}
	if n.right {
		s = strings.TrimRightFunc(s, unicode.IsSpace)
	}
	return s
}

type lowercase struct{}

// One character becomes two in lower case; Go knows only the first of them.
const dottedI, dottedSmallI = "İ", "i̇"

func (lowercase) normalize(s string) string {
	parts := strings.Split(s, dottedI)
	for i, p := range parts {
		parts[i] = strings.Map(unicode.ToLower, p)
	}
	return strings.Join(parts, dottedSmallI)
}

// isASCII reports whether s is ASCII, which no Unicode form changes.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
