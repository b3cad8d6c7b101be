package openai

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// MaxDepth is how deep arrays and objects may nest. Python's json.loads takes
// 994 levels up to Python 3.11, more in later ones; tool schemas in the wild stay
// under 20.
const MaxDepth = 1000

var errDepth = fmt.Errorf("nests deeper than %d levels", MaxDepth)

// syntaxError says at which byte of the scanned text it stopped being JSON.
type syntaxError struct {
	at   int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

var errShort = errors.New("unexpected end of JSON")

func unexpected(b []byte, i int) error {
	if i >= len(b) {
		return errShort
	}
	return &syntaxError{i, fmt.Sprintf("unexpected character %q", b[i])}
}

// skipSpace returns the first index at or after i that is not JSON white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue checks the one JSON value that begins at b[i] and returns the
// index after it. depth is how many levels lie above it.
func skipValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return i, errShort
	}
	if b[i] == '{' || b[i] == '[' {
		return skipNested(b, i, depth)
	}
	return skipScalar(b, i)
}

// skipScalar is skipValue for what nests nothing.
func skipScalar(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, errShort
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == 'N': // Python's json writes and reads these three
		return skipWord(b, i, "NaN")
	case c == 'I':
		return skipWord(b, i, "Infinity")
	case c == '-' && i+1 < len(b) && b[i+1] == 'I':
		return skipWord(b, i, "-Infinity")
	case c == '-' || c-'0' < 10:
		return skipNumber(b, i)
	case c == 't':
		return skipWord(b, i, "true")
	case c == 'f':
		return skipWord(b, i, "false")
	case c == 'n':
		return skipWord(b, i, "null")
	}
	return i, unexpected(b, i)
}

func skipWord(b []byte, i int, word string) (int, error) {
	if len(b)-i < len(word) {
		return i, errShort
	}
	if string(b[i:i+len(word)]) != word {
		return i, unexpected(b, i)
	}
	return i + len(word), nil
}

// kinds remembers of every open level whether it is an object.
type kinds [(MaxDepth + 63) / 64]uint64

func (k *kinds) set(level int, object bool) {
	k[level/64] &^= 1 << (level % 64)
	if object {
		k[level/64] |= 1 << (level % 64)
	}
}

func (k *kinds) object(level int) bool { return k[level/64]>>(level%64)&1 > 0 }

// skipNested is skipValue for objects and arrays. It takes a bit of memory a
// level, where a call a level would take some 300 bytes of stack.
func skipNested(b []byte, i, depth int) (_ int, err error) {
	var open kinds
	level := depth // of what is open
	for {
		if i < len(b) && (b[i] == '{' || b[i] == '[') {
			if level >= MaxDepth {
				return i, errDepth
			}
			object := b[i] == '{'
			if i = skipSpace(b, i+1); i >= len(b) || b[i] != closing(object) {
				open.set(level, object)
				level++
				if object {
					if _, i, err = skipKey(b, i); err != nil {
						return i, err
					}
				}
				continue
			}
			i++
		} else if i, err = skipScalar(b, i); err != nil {
			return i, err
		}
		for done := true; done; { // a value has ended
			if level == depth {
				return i, nil
			}
			object := open.object(level - 1)
			if i, done, err = nextElement(b, i, closing(object)); err != nil {
				return i, err
			}
			if done {
				level--
			} else if object {
				if _, i, err = skipKey(b, i); err != nil {
					return i, err
				}
			}
		}
	}
}

func closing(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}

// skipKey returns the index after the key of a member at b[i], and that of its
// value.
func skipKey(b []byte, i int) (end, value int, err error) {
	if i >= len(b) || b[i] != '"' {
		return i, i, unexpected(b, i)
	}
	if end, err = skipString(b, i); err != nil {
		return end, end, err
	}
	if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
		return end, i, unexpected(b, i)
	}
	return end, skipSpace(b, i+1), nil
}

// eachMember walks the object at b[i], calling fn with the span
// of each key, quotes included, and of each value.
func eachMember(b []byte, i, depth int, fn func(key, value []byte) error) (int, error) {
	if depth >= MaxDepth {
		return i, errDepth
	}
	if i >= len(b) || b[i] != '{' {
		return i, unexpected(b, i)
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		keyEnd, at, err := skipKey(b, i)
		if err != nil {
			return at, err
		}
		key := b[i:keyEnd]
		end, err := skipValue(b, at, depth+1)
		if err != nil {
			return end, err
		}
		if err := fn(key, b[at:end]); err != nil {
			return end, err
		}
		var done bool
		if i, done, err = nextElement(b, end, '}'); done || err != nil {
			return i, err
		}
	}
}

// eachElement walks the array at b[i], calling fn with the span
// of each element.
func eachElement(b []byte, i, depth int, fn func(value []byte) error) (int, error) {
	if depth >= MaxDepth {
		return i, errDepth
	}
	if i >= len(b) || b[i] != '[' {
		return i, unexpected(b, i)
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		end, err := skipValue(b, i, depth+1)
		if err != nil {
			return end, err
		}
		if err := fn(b[i:end]); err != nil {
			return end, err
		}
		var done bool
		if i, done, err = nextElement(b, end, ']'); done || err != nil {
			return i, err
		}
	}
}

// nextElement steps over the comma after an element, or over the closing
// bracket; done reports the latter.
func nextElement(b []byte, i int, closing byte) (next int, done bool, err error) {
	i = skipSpace(b, i)
	if i >= len(b) {
		return i, false, errShort
	}
	switch b[i] {
	case closing:
		return i + 1, true, nil
	case ',':
		return skipSpace(b, i+1), false, nil
	}
	return i, false, unexpected(b, i)
}

// skipNumber follows the grammar of RFC 8259 section 6.
func skipNumber(b []byte, i int) (int, error) {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && b[i]-'1' < 9:
		i = skipDigits(b, i)
	default:
		return i, unexpected(b, i)
	}
	if i < len(b) && b[i] == '.' {
		end := skipDigits(b, i+1)
		if end == i+1 {
			return end, unexpected(b, end)
		}
		i = end
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := skipDigits(b, i)
		if end == i {
			return end, unexpected(b, end)
		}
		i = end
	}
	return i, nil
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' < 10 {
		i++
	}
	return i
}

// skipString checks the string at b[i] == '"' and returns the index after its
// closing quote.
func skipString(b []byte, i int) (int, error) {
	i++
	for {
		i = skipPlain(b, i)
		if i >= len(b) {
			return i, errShort
		}
		switch b[i] {
		case '"':
			return i + 1, nil
		case '\\':
			var err error
			if i, err = skipEscape(b, i); err != nil {
				return i, err
			}
		default:
			return i, unexpected(b, i)
		}
	}
}

// skipPlain returns the first index at or after i that is a quote, a backslash
// or a control character: eight bytes a step.
func skipPlain(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^'"'*ones, w^'\\'*ones
		// The lowest set bit marks the first hit exactly; borrows can only
		// set bits above it.
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-0x20*ones)&^w) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
		i++
	}
	return i
}

func skipEscape(b []byte, i int) (int, error) {
	if i+1 >= len(b) {
		return len(b), errShort
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		if i+6 > len(b) {
			return len(b), errShort
		}
		for j := i + 2; j < i+6; j++ {
			if !isHex(b[j]) {
				return j, unexpected(b, j)
			}
		}
		return i + 6, nil
	}
	return i + 1, unexpected(b, i+1)
}

func isHex(c byte) bool { return c-'0' < 10 || c|0x20-'a' < 6 }
