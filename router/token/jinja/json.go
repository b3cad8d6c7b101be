package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseJSON reads one JSON text as Python's json.loads does: dicts keep the
// order of their keys, 1 is an int and 1.0 a float. Integers beyond 64 bits,
// invalid UTF-8 and lone surrogates are refused, and so is nesting deeper
// than 500.
func ParseJSON(text []byte) (Value, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("jinja: the JSON text is not valid UTF-8")
	}
	if loneSurrogate(text) {
		return nil, errors.New("jinja: the JSON text has a lone surrogate")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	v, err := decode(dec, 500)
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("jinja: text follows the JSON value")
	}
	return v, nil
}

func decode(dec *json.Decoder, depth int) (Value, error) {
	if depth <= 0 {
		return nil, errDepth
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch x := tok.(type) {
	case json.Number:
		return parseNumber(string(x))
	case json.Delim:
		if x == '{' {
			d := NewDict()
			for dec.More() {
				key, err := dec.Token()
				if err != nil {
					return nil, err
				}
				name, ok := key.(string)
				if !ok {
					return nil, errors.New("a key is not a string")
				}
				v, err := decode(dec, depth-1)
				if err != nil {
					return nil, err
				}
				d.Set(name, v)
			}
			_, err := dec.Token()
			return d, err
		}
		l := &List{}
		for dec.More() {
			v, err := decode(dec, depth-1)
			if err != nil {
				return nil, err
			}
			l.Items = append(l.Items, v)
		}
		_, err := dec.Token()
		return l, err
	}
	return tok, nil
}

func parseNumber(s string) (Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !math.IsInf(f, 0) {
			return nil, err
		}
		return f, nil
	}
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the integer %.40s is beyond 64 bits", s)
	}
	return i, nil
}

// loneSurrogate tells whether a \u escape is half of a pair without the other
// half: Python keeps it, but it has no UTF-8.
func loneSurrogate(b []byte) bool {
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		i++
		if b[i] != 'u' {
			continue
		}
		n := hex4(b, i+1)
		if n < 0xd800 || n > 0xdfff {
			continue
		}
		if n > 0xdbff || i+6 >= len(b) || b[i+5] != '\\' || b[i+6] != 'u' {
			return true
		}
		if low := hex4(b, i+7); low < 0xdc00 || low > 0xdfff {
			return true
		}
		i += 10
	}
	return false
}

func hex4(b []byte, at int) int {
	if at+4 > len(b) {
		return -1
	}
	n, err := strconv.ParseUint(string(b[at:at+4]), 16, 32)
	if err != nil {
		return -1
	}
	return int(n)
}

type jsonStyle struct {
	indent    string
	item, key string
	pretty    bool
	ascii     bool
	sort      bool
}

// appendJSON appends json.dumps(v): separators and spaces are Python's.
func appendJSON(dst []byte, v Value, st jsonStyle, level, depth int) ([]byte, error) {
	if depth <= 0 {
		return dst, errDepth
	}
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, x), nil
	case int64:
		return strconv.AppendInt(dst, x, 10), nil
	case float64:
		return appendJSONFloat(dst, x), nil
	case string:
		return appendJSONString(dst, x, st.ascii), nil
	case *List:
		var err error
		dst = append(dst, '[')
		for i, item := range x.Items {
			dst = st.separate(dst, i, level+1)
			if dst, err = appendJSON(dst, item, st, level+1, depth-1); err != nil {
				return dst, err
			}
		}
		return append(st.closing(dst, len(x.Items), level), ']'), nil
	case *Dict:
		return appendJSONDict(dst, x, st, level, depth)
	}
	return dst, fmt.Errorf("object of type %s is not JSON serializable", typeName(v))
}

func appendJSONDict(dst []byte, d *Dict, st jsonStyle, level, depth int) ([]byte, error) {
	if st.sort {
		var err error
		if d, err = sortedDict(d); err != nil {
			return dst, err
		}
	}
	dst = append(dst, '{')
	for i, key := range d.keys {
		dst = st.separate(dst, i, level+1)
		switch k := key.(type) {
		case string:
			dst = appendJSONString(dst, k, st.ascii)
		case nil, bool, int64, float64:
			dst = append(dst, '"')
			dst, _ = appendJSON(dst, k, st, 0, 2)
			dst = append(dst, '"')
		default:
			return dst, fmt.Errorf("keys must be str, int, float, bool or None, not %s", typeName(key))
		}
		dst = append(dst, st.key...)
		var err error
		if dst, err = appendJSON(dst, d.vals[i], st, level+1, depth-1); err != nil {
			return dst, err
		}
	}
	return append(st.closing(dst, d.Len(), level), '}'), nil
}

func (st jsonStyle) separate(dst []byte, i, level int) []byte {
	if i > 0 {
		dst = append(dst, st.item...)
	}
	if st.pretty {
		dst = append(dst, '\n')
		for range level {
			dst = append(dst, st.indent...)
		}
	}
	return dst
}

func (st jsonStyle) closing(dst []byte, n, level int) []byte {
	if n == 0 || !st.pretty {
		return dst
	}
	dst = append(dst, '\n')
	for range level {
		dst = append(dst, st.indent...)
	}
	return dst
}

func appendJSONFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return appendFloat(dst, f)
}

func appendJSONString(dst []byte, s string, ascii bool) []byte {
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		case c == '\b':
			dst = append(dst, `\b`...)
		case c < 0x20 || ascii && c > 0x7e && c < 0x10000:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		case ascii && c >= 0x10000:
			c -= 0x10000
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}
