package crdt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrCorrupt is wrapped by every error about bytes that no encoder of this
// package writes.
var ErrCorrupt = errors.New("corrupt bytes")

// maxString bounds a name on the wire, bytes.
const maxString = 4096

var le = binary.LittleEndian

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// reader takes fixed-width little-endian values off a buffer. The first
// shortage sets err; everything after reads as zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = corrupt(format, args...)
	}
	r.b = nil
}

// take takes n bytes; the result aliases the buffer.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail("%d bytes wanted, %d left", n, len(r.b))
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

func (r *reader) i64() int64 { return int64(r.u64()) }

func (r *reader) flag() bool {
	switch r.u8() {
	case 0:
		return false
	case 1:
		return true
	}
	r.fail("flag is neither 0 nor 1")
	return false
}

// f64 takes a finite number: NaN would poison every sum it enters.
func (r *reader) f64() float64 {
	f := math.Float64frombits(r.u64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		r.fail("number is not finite")
		return 0
	}
	return f
}

// str takes a string, copied.
func (r *reader) str() string {
	n := int(r.u16())
	if n > maxString {
		r.fail("string of %d bytes", n)
		return ""
	}
	return string(r.take(n))
}

func (r *reader) stream() StreamID { return StreamID(r.str()) }

func (r *reader) peer() (p PeerID) {
	copy(p[:], r.take(len(p)))
	return p
}

// count takes a number of elements of at least size bytes each; what is left
// is checked before the caller allocates.
func (r *reader) count(size int) int {
	n := int64(r.u32())
	if n*int64(size) > int64(len(r.b)) {
		r.fail("%d elements of %d bytes in %d", n, size, len(r.b))
		return 0
	}
	return int(n)
}

// column takes n words.
func (r *reader) column(n int) []uint64 { return words[uint64](r, nil, n) }

// words is column into the memory of dst.
func words[W ~uint64](r *reader, dst []W, n int) []W {
	b := r.take(8 * n)
	if len(b) == 0 {
		return dst[:0]
	}
	dst = slices.Grow(dst[:0], n)[:n]
	for i := range dst {
		dst[i] = W(le.Uint64(b[8*i:]))
	}
	return dst
}

func (r *reader) spans() []Span {
	n := r.count(16)
	if n == 0 {
		return nil
	}
	out := make([]Span, n)
	for i := range out {
		out[i] = Span{r.u64(), r.u64()}
	}
	if !canonical(out) {
		r.fail("spans not ascending and disjoint")
		return nil
	}
	return out
}

// rest is what a Decode function returns last.
func (r *reader) rest() ([]byte, error) { return r.b, r.err }

// appendString appends a string; what is over maxString is cut off.
func appendString(b []byte, s string) []byte {
	s = s[:min(len(s), maxString)]
	return append(le.AppendUint16(b, uint16(len(s))), s...)
}

func appendFlag(b []byte, on bool) []byte {
	if on {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendF64(b []byte, f float64) []byte { return le.AppendUint64(b, math.Float64bits(f)) }

func appendSpans(b []byte, s []Span) []byte {
	b = le.AppendUint32(b, uint32(len(s)))
	for _, x := range s {
		b = le.AppendUint64(le.AppendUint64(b, x.From), x.To)
	}
	return b
}
