package openai

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// MaxDepth is how deep arrays and objects may nest. Tool schemas in the wild
// stay under 20.
const MaxDepth = 128

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
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == '{':
		return skipObject(b, i, depth)
	case c == '[':
		return skipArray(b, i, depth)
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

func skipObject(b []byte, i, depth int) (int, error) {
	return eachMember(b, i, depth, nil)
}

// eachMember walks the object at b[i], calling fn (if not nil) with the span
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
		if i >= len(b) || b[i] != '"' {
			return i, unexpected(b, i)
		}
		keyEnd, err := skipString(b, i)
		if err != nil {
			return keyEnd, err
		}
		key := b[i:keyEnd]
		i = skipSpace(b, keyEnd)
		if i >= len(b) || b[i] != ':' {
			return i, unexpected(b, i)
		}
		i = skipSpace(b, i+1)
		end, err := skipValue(b, i, depth+1)
		if err != nil {
			return end, err
		}
		if fn != nil {
			if err := fn(key, b[i:end]); err != nil {
				return end, err
			}
		}
		var done bool
		if i, done, err = nextElement(b, end, '}'); done || err != nil {
			return i, err
		}
	}
}

func skipArray(b []byte, i, depth int) (int, error) {
	return eachElement(b, i, depth, nil)
}

// eachElement walks the array at b[i], calling fn (if not nil) with the span
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
		if fn != nil {
			if err := fn(b[i:end]); err != nil {
				return end, err
			}
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
