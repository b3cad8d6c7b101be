package kvevents

import (
	"encoding/binary"
	"errors"
	"math"
)

// maxDepth bounds nesting in anything skipped or canonicalised.
const maxDepth = 32

// errStructure says that the bytes are not msgpack, or claim more than there
// is: nothing behind this point can be trusted.
var errStructure = errors.New("broken msgpack")

// errType says that a value is not of the type its place demands. The value's
// extent is known: only its event is lost.
var errType = errors.New("unexpected type")

// cursor reads msgpack in place. It allocates nothing and never trusts a
// claimed length beyond the bytes that are there (I2). After errStructure it
// must not be used any more; after errType it still stands before the value.
type cursor struct {
	b  []byte
	at int
}

// peek is the next value's first byte.
func (c *cursor) peek() (byte, error) {
	if c.at >= len(c.b) {
		return 0, errStructure
	}
	return c.b[c.at], nil
}

// uint reads n big-endian bytes at offset off from the cursor.
func (c *cursor) uint(off, n int) (uint64, error) {
	if len(c.b)-c.at < off+n {
		return 0, errStructure
	}
	var v uint64
	for _, x := range c.b[c.at+off : c.at+off+n] {
		v = v<<8 | uint64(x)
	}
	return v, nil
}

// null consumes a nil if one is next.
func (c *cursor) null() (bool, error) {
	t, err := c.peek()
	if err != nil || t != 0xc0 {
		return false, err
	}
	c.at++
	return true, nil
}

// array reads an array header. Every element takes at least one byte.
func (c *cursor) array() (int, error) { return c.count(0x90, 0xdc, 1) }

// mapping reads a map header. Every pair takes at least two bytes.
func (c *cursor) mapping() (int, error) { return c.count(0x80, 0xde, 2) }

// count reads a container header: fix is its one-byte form, wide its 16-bit
// form (the 32-bit form follows), least the bytes an element takes.
func (c *cursor) count(fix, wide byte, least int) (int, error) {
	t, err := c.peek()
	if err != nil {
		return 0, err
	}
	var n uint64
	size := 1
	switch {
	case t&0xf0 == fix:
		n = uint64(t & 0x0f)
	case t == wide:
		n, err = c.uint(1, 2)
		size = 3
	case t == wide+1:
		n, err = c.uint(1, 4)
		size = 5
	default:
		return 0, errType
	}
	if err != nil || n > uint64((len(c.b)-c.at-size)/least) {
		return 0, errStructure
	}
	c.at += size
	return int(n), nil
}

// isArray and isMap look at the next value's type.
func isArray(t byte) bool { return t&0xf0 == 0x90 || t == 0xdc || t == 0xdd }
func isMap(t byte) bool   { return t&0xf0 == 0x80 || t == 0xde || t == 0xdf }
func isStr(t byte) bool   { return t&0xe0 == 0xa0 || t >= 0xd9 && t <= 0xdb }
func isBin(t byte) bool   { return t >= 0xc4 && t <= 0xc6 }

// integer reads any integer as 64 bits, two's complement; negative says that
// it was below zero.
func (c *cursor) integer() (v uint64, negative bool, err error) {
	t, err := c.peek()
	if err != nil {
		return 0, false, err
	}
	switch {
	case t < 0x80:
		c.at++
		return uint64(t), false, nil
	case t >= 0xe0:
		c.at++
		return uint64(int64(int8(t))), true, nil
	case t >= 0xcc && t <= 0xcf:
		n := 1 << (t - 0xcc)
		v, err = c.uint(1, n)
		if err == nil {
			c.at += 1 + n
		}
		return v, false, err
	case t >= 0xd0 && t <= 0xd3:
		n := 1 << (t - 0xd0)
		v, err = c.uint(1, n)
		if err != nil {
			return 0, false, err
		}
		c.at += 1 + n
		shift := 64 - 8*n
		s := int64(v<<shift) >> shift
		return uint64(s), s < 0, nil
	}
	return 0, false, errType
}

// number reads an integer or a float.
func (c *cursor) number() (float64, error) {
	t, err := c.peek()
	if err != nil {
		return 0, err
	}
	switch t {
	case 0xca:
		v, err := c.uint(1, 4)
		if err != nil {
			return 0, err
		}
		c.at += 5
		return float64(math.Float32frombits(uint32(v))), nil
	case 0xcb:
		v, err := c.uint(1, 8)
		if err != nil {
			return 0, err
		}
		c.at += 9
		return math.Float64frombits(v), nil
	}
	v, negative, err := c.integer()
	if negative {
		return float64(int64(v)), err
	}
	return float64(v), err
}

// text reads a string; the bytes are a view.
func (c *cursor) text() ([]byte, error) {
	t, err := c.peek()
	switch {
	case err != nil:
		return nil, err
	case t&0xe0 == 0xa0:
		return c.view(1, int(t&0x1f))
	case isStr(t):
		return c.sized(1 << (t - 0xd9))
	}
	return nil, errType
}

// binary reads a byte string; the bytes are a view.
func (c *cursor) binary() ([]byte, error) {
	t, err := c.peek()
	switch {
	case err != nil:
		return nil, err
	case isBin(t):
		return c.sized(1 << (t - 0xc4))
	}
	return nil, errType
}

// sized reads bytes behind a length of n bytes.
func (c *cursor) sized(n int) ([]byte, error) {
	size, err := c.uint(1, n)
	if err != nil || size > uint64(len(c.b)) {
		return nil, errStructure
	}
	return c.view(1+n, int(size))
}

// view consumes off+n bytes and returns the last n.
func (c *cursor) view(off, n int) ([]byte, error) {
	if len(c.b)-c.at < off+n {
		return nil, errStructure
	}
	from := c.at + off
	c.at = from + n
	return c.b[from:c.at:c.at], nil
}

// skip consumes one value of any type.
func (c *cursor) skip() error { return c.skipDepth(maxDepth) }

// skipDepth consumes one value nested at most depth deep.
func (c *cursor) skipDepth(depth int) error {
	t, err := c.peek()
	if err != nil {
		return err
	}
	var n int
	switch {
	case t < 0x80 || t >= 0xe0 || t == 0xc0 || t == 0xc2 || t == 0xc3:
		_, err = c.view(1, 0)
		return err
	case isStr(t):
		_, err = c.text()
		return err
	case isBin(t):
		_, err = c.binary()
		return err
	case isArray(t):
		n, err = c.array()
	case isMap(t):
		n, err = c.mapping()
		n *= 2
	default:
		return c.skipFixed(t)
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

// skipFixed consumes numbers and extension types.
func (c *cursor) skipFixed(t byte) error {
	var err error
	switch {
	case t == 0xca || t == 0xcb:
		_, err = c.view(1, 4<<(t-0xca))
	case t >= 0xcc && t <= 0xcf:
		_, err = c.view(1, 1<<(t-0xcc))
	case t >= 0xd0 && t <= 0xd3:
		_, err = c.view(1, 1<<(t-0xd0))
	case t >= 0xd4 && t <= 0xd8: // fixext: type and 1..16 bytes
		_, err = c.view(2, 1<<(t-0xd4))
	case t >= 0xc7 && t <= 0xc9: // ext: length, type, bytes
		n := 1 << (t - 0xc7)
		size, e := c.uint(1, n)
		if e != nil || size > uint64(len(c.b)) {
			return errStructure
		}
		_, err = c.view(2+n, int(size))
	default: // 0xc1 is never used
		return errStructure
	}
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
	case t == 0xc0 || t == 0xc2 || t == 0xc3:
		c.at++
		return append(dst, t), nil
	case isStr(t):
		b, err := c.text()
		return appendSized(dst, 's', b), err
	case isBin(t):
		b, err := c.binary()
		return appendSized(dst, 'b', b), err
	case t == 0xca || t == 0xcb:
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
