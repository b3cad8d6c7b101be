package gossip

import "errors"

// maxDepth bounds the nesting of a msgpack value from the network.
const maxDepth = 32

var errMalformed = errors.New("malformed msgpack")

// scan checks that b is exactly one well-formed msgpack value: depth within
// maxDepth, every claimed count and length within the remaining bytes. It
// allocates nothing, O(len(b)).
func scan(b []byte) error {
	rest, ok := skip(b, 0)
	if !ok || len(rest) != 0 {
		return errMalformed
	}
	return nil
}

// skip steps over one value.
func skip(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 || depth > maxDepth {
		return nil, false
	}
	c := b[0]
	b = b[1:]
	switch {
	case c <= 0x7f || c >= 0xe0 || c == 0xc0 || c == 0xc2 || c == 0xc3:
		return b, true
	case c <= 0x8f:
		return skipAll(b, 2*uint64(c&0x0f), depth)
	case c <= 0x9f:
		return skipAll(b, uint64(c&0x0f), depth)
	case c <= 0xbf:
		return skipBytes(b, uint64(c&0x1f))
	}
	return skipLong(c, b, depth)
}

// skipLong steps over the values whose head says how long their length is.
func skipLong(c byte, b []byte, depth int) ([]byte, bool) {
	switch c {
	case 0xcc, 0xd0:
		return skipBytes(b, 1)
	case 0xcd, 0xd1:
		return skipBytes(b, 2)
	case 0xca, 0xce, 0xd2:
		return skipBytes(b, 4)
	case 0xcb, 0xcf, 0xd3:
		return skipBytes(b, 8)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return skipBytes(b, 1+1<<(c-0xd4))
	}
	width, extra, per := lengthOf(c)
	if width == 0 || len(b) < width {
		return nil, false
	}
	var n uint64
	for _, x := range b[:width] {
		n = n<<8 | uint64(x)
	}
	b = b[width:]
	if per > 0 {
		return skipAll(b, n*per, depth)
	}
	return skipBytes(b, n+extra)
}

// lengthOf tells the bytes of a head's length field, the bytes that follow it
// besides the length, and the values per element of a container (0: raw bytes).
func lengthOf(c byte) (width int, extra, per uint64) {
	switch c {
	case 0xc4, 0xd9:
		return 1, 0, 0
	case 0xc5, 0xda:
		return 2, 0, 0
	case 0xc6, 0xdb:
		return 4, 0, 0
	case 0xc7:
		return 1, 1, 0
	case 0xc8:
		return 2, 1, 0
	case 0xc9:
		return 4, 1, 0
	case 0xdc:
		return 2, 0, 1
	case 0xdd:
		return 4, 0, 1
	case 0xde:
		return 2, 0, 2
	case 0xdf:
		return 4, 0, 2
	}
	return 0, 0, 0
}

func skipBytes(b []byte, n uint64) ([]byte, bool) {
	if n > uint64(len(b)) {
		return nil, false
	}
	return b[n:], true
}

// skipAll steps over n values; a value takes a byte at least.
func skipAll(b []byte, n uint64, depth int) (_ []byte, ok bool) {
	if n > uint64(len(b)) {
		return nil, false
	}
	for range n {
		if b, ok = skip(b, depth+1); !ok {
			return nil, false
		}
	}
	return b, true
}
