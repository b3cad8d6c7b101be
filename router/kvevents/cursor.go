package kvevents

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// maxDepth bounds nesting in anything skipped or canonicalised.
const maxDepth = 32

// errStructure says that the bytes are not msgpack, or claim more than there
// is: nothing behind this point can be trusted.
var errStructure = errors.New("broken msgpack")

// errType says that a value is not of the type its place demands. The value's
// extent is known: only its event is lost.
var errType = errors.New("unexpected type")

// cursor reads msgpack in place: the library decodes each value, and what is
// checked here is what it leaves to its caller, that a claimed length is
// covered by the bytes that are there and that nesting has an end (I2). After
// errStructure it must not be used any more; after errType it still stands
// before the value.
type cursor struct {
	b []byte
	r bytes.Reader
	d msgpack.Decoder
}

// newCursor reads b from its beginning.
func newCursor(b []byte) *cursor {
	c := &cursor{}
	c.reset(b)
	return c
}

// reset starts again at the beginning of b.
func (c *cursor) reset(b []byte) {
	c.b = b
	c.r.Reset(b)
	c.d.Reset(&c.r)
}

// left is how many bytes are still to be read.
func (c *cursor) left() int { return c.r.Len() }

// at is the position of the next value.
func (c *cursor) at() int { return len(c.b) - c.r.Len() }

// seek continues at position at, which must be within the payload.
func (c *cursor) seek(at int) { _, _ = c.r.Seek(int64(at), io.SeekStart) }

// peek is the next value's first byte.
func (c *cursor) peek() (byte, error) {
	t, err := c.d.PeekCode()
	return t, broken(err)
}

// broken turns what the library says of bytes whose type is known to fit into
// errStructure: they end too early.
func broken(err error) error {
	if err != nil {
		return errStructure
	}
	return nil
}

// null consumes a nil if one is next.
func (c *cursor) null() (bool, error) {
	t, err := c.peek()
	if err != nil || t != msgpcode.Nil {
		return false, err
	}
	return true, broken(c.d.DecodeNil())
}

// array reads an array header. Every element takes at least one byte.
func (c *cursor) array() (int, error) { return c.count(isArray, c.d.DecodeArrayLen, 1) }

// mapping reads a map header. Every pair takes at least two bytes.
func (c *cursor) mapping() (int, error) { return c.count(isMap, c.d.DecodeMapLen, 2) }

// count reads a container header whose elements take at least the given bytes.
func (c *cursor) count(is func(byte) bool, read func() (int, error), least int) (int, error) {
	t, err := c.peek()
	if err != nil {
		return 0, err
	}
	if !is(t) {
		return 0, errType
	}
	n, err := read()
	if err != nil || n > c.left()/least {
		return 0, errStructure
	}
	return n, nil
}

// The type of a value, by its first byte.
func isArray(t byte) bool {
	return msgpcode.IsFixedArray(t) || t == msgpcode.Array16 || t == msgpcode.Array32
}

func isMap(t byte) bool {
	return msgpcode.IsFixedMap(t) || t == msgpcode.Map16 || t == msgpcode.Map32
}
func isStr(t byte) bool     { return msgpcode.IsString(t) }
func isBin(t byte) bool     { return msgpcode.IsBin(t) }
func isExt(t byte) bool     { return msgpcode.IsExt(t) }
func isFloat(t byte) bool   { return t == msgpcode.Float || t == msgpcode.Double }
func isInteger(t byte) bool { return msgpcode.IsFixedNum(t) || isSigned(t) || isUnsigned(t) }

func isSigned(t byte) bool   { return t >= msgpcode.Int8 && t <= msgpcode.Int64 }
func isUnsigned(t byte) bool { return t >= msgpcode.Uint8 && t <= msgpcode.Uint64 }

// integer reads any integer as 64 bits, two's complement; negative says that
// it was below zero.
func (c *cursor) integer() (v uint64, negative bool, err error) {
	t, err := c.peek()
	if err != nil {
		return 0, false, err
	}
	if !isInteger(t) {
		return 0, false, errType
	}
	if v, err = c.d.DecodeUint64(); err != nil {
		return 0, false, errStructure
	}
	return v, int64(v) < 0 && !isUnsigned(t), nil
}

// number reads an integer or a float.
func (c *cursor) number() (float64, error) {
	t, err := c.peek()
	if err != nil {
		return 0, err
	}
	if isFloat(t) {
		v, err := c.d.DecodeFloat64()
		return v, broken(err)
	}
	v, negative, err := c.integer()
	if negative {
		return float64(int64(v)), err
	}
	return float64(v), err
}

// text reads a string; the bytes are a view.
func (c *cursor) text() ([]byte, error) { return c.sized(isStr) }

// binary reads a byte string; the bytes are a view.
func (c *cursor) binary() ([]byte, error) { return c.sized(isBin) }

// sized reads bytes behind their length.
func (c *cursor) sized(is func(byte) bool) ([]byte, error) {
	t, err := c.peek()
	if err != nil {
		return nil, err
	}
	if !is(t) {
		return nil, errType
	}
	n, err := c.d.DecodeBytesLen()
	if err != nil {
		return nil, errStructure
	}
	return c.view(n)
}

// view consumes n bytes and returns them.
func (c *cursor) view(n int) ([]byte, error) {
	if n > c.left() {
		return nil, errStructure
	}
	from := c.at()
	c.seek(from + n)
	return c.b[from : from+n : from+n], nil
}

// skip consumes one value of any type.
func (c *cursor) skip() error { return c.skipDepth(maxDepth) }

// skipDepth consumes one value nested at most depth deep. The library's own
// Skip follows any nesting and copies what it skips: it is left the values of
// fixed size.
func (c *cursor) skipDepth(depth int) error {
	t, err := c.peek()
	if err != nil {
		return err
	}
	var n int
	switch {
	case isStr(t):
		_, err = c.text()
		return err
	case isBin(t):
		_, err = c.binary()
		return err
	case isExt(t):
		return c.skipExt()
	case isArray(t):
		n, err = c.array()
	case isMap(t):
		n, err = c.mapping()
		n *= 2
	default:
		return broken(c.d.Skip())
	}
	if err != nil || n > 0 && depth == 0 {
		return errStructure
	}
	for range n {
		if err := c.skipDepth(depth - 1); err != nil {
			return err
		}
	}
	return nil
}

// skipExt consumes an extension type.
func (c *cursor) skipExt() error {
	_, n, err := c.d.DecodeExtHeader()
	if err != nil {
		return errStructure
	}
	_, err = c.view(n)
	return err
}

// appendCanonical consumes one value and appends a form of it that does not
// depend on how an encoder chose lengths: equal values give equal bytes.
func (c *cursor) appendCanonical(dst []byte, depth int) ([]byte, error) {
	t, err := c.peek()
	if err != nil {
		return dst, err
	}
	switch {
	case t == msgpcode.Nil || t == msgpcode.False || t == msgpcode.True:
		return append(dst, t), broken(c.d.Skip())
	case isStr(t):
		b, err := c.text()
		return appendSized(dst, 's', b), err
	case isBin(t):
		b, err := c.binary()
		return appendSized(dst, 'b', b), err
	case isFloat(t):
		v, err := c.number()
		return binary.BigEndian.AppendUint64(append(dst, 'd'), math.Float64bits(v)), err
	case isArray(t) || isMap(t):
		return c.appendCanonicalMany(dst, t, depth)
	}
	v, negative, err := c.integer()
	if err != nil {
		return dst, err
	}
	sign := byte('+')
	if negative {
		sign = '-'
	}
	return binary.BigEndian.AppendUint64(append(dst, sign), v), nil
}

// appendCanonicalMany does a container. Maps keep the engine's order.
func (c *cursor) appendCanonicalMany(dst []byte, t byte, depth int) ([]byte, error) {
	var n int
	var err error
	mark := byte('a')
	if isMap(t) {
		n, err = c.mapping()
		mark = 'm'
	} else {
		n, err = c.array()
	}
	if err != nil || depth == 0 {
		return dst, errStructure
	}
	dst = binary.BigEndian.AppendUint32(append(dst, mark), uint32(n))
	if mark == 'm' {
		n *= 2
	}
	for range n {
		if dst, err = c.appendCanonical(dst, depth-1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendSized appends a marked, length-delimited byte string.
func appendSized(dst []byte, mark byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(dst, mark), uint32(len(b))), b...)
}
