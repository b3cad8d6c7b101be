package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// appendText appends Python's str(v).
func appendText(dst []byte, v Value, depth int) ([]byte, error) {
	switch x := v.(type) {
	case string:
		return append(dst, x...), nil
	case undefined:
		return dst, nil
	}
	return appendRepr(dst, v, depth)
}

// appendRepr appends Python's repr(v).
func appendRepr(dst []byte, v Value, depth int) ([]byte, error) {
	if depth <= 0 {
		return dst, errDepth
	}
	var err error
	switch x := v.(type) {
	case nil:
		return append(dst, "None"...), nil
	case bool:
		if x {
			return append(dst, "True"...), nil
		}
		return append(dst, "False"...), nil
	case int64:
		return strconv.AppendInt(dst, x, 10), nil
	case float64:
		return appendFloat(dst, x), nil
	case string:
		return appendQuoted(dst, x), nil
	case undefined:
		return append(dst, "Undefined"...), nil
	case *List:
		open, end := byte('['), byte(']')
		if x.tuple {
			open, end = '(', ')'
		}
		dst = append(dst, open)
		for i, item := range x.Items {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			if dst, err = appendRepr(dst, item, depth-1); err != nil {
				return dst, err
			}
		}
		if x.tuple && len(x.Items) == 1 {
			dst = append(dst, ',')
		}
		return append(dst, end), nil
	case *Dict:
		dst = append(dst, '{')
		for i, key := range x.keys {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			if dst, err = appendRepr(dst, key, depth-1); err != nil {
				return dst, err
			}
			dst = append(dst, ": "...)
			if dst, err = appendRepr(dst, x.vals[i], depth-1); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case *view:
		if x.kind == "range" {
			break
		}
		dst = append(append(dst, x.kind...), '(')
		if dst, err = appendRepr(dst, &List{Items: x.items}, depth-1); err != nil {
			return dst, err
		}
		return append(dst, ')'), nil
	}
	return dst, fmt.Errorf("printing a %s is not supported", typeName(v))
}

// appendFloat appends Python's repr of a float: the shortest digits that read
// back, with an exponent below 1e-4 and from 1e16 on.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if !strings.Contains(string(dst[start:]), ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendQuoted(dst []byte, s string) []byte {
	quote := rune('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	dst = append(dst, byte(quote))
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < 0x20 || c == 0x7f:
			dst = fmt.Appendf(dst, `\x%02x`, c)
		case c < 0x7f || unicode.IsPrint(c):
			dst = utf8.AppendRune(dst, c)
		case c <= 0xff:
			dst = fmt.Appendf(dst, `\x%02x`, c)
		case c <= 0xffff:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = fmt.Appendf(dst, `\U%08x`, c)
		}
	}
	return append(dst, byte(quote))
}

// isSpace tells whether Python's str.isspace is true of c.
func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }
