package gossip

import (
	"encoding/binary"
	"errors"

	"github.com/banyan-llm/banyan/crdt"
)

var errShort = errors.New("payload too short")

// newBody starts a payload: every payload begins with the sender's clock.
func (c *base) newBody(size int) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 0, 8+size), uint64(c.wall()))
}

// putString appends a string of at most 64 KiB with its length.
func putString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// reader takes fixed-width little-endian values off a payload. The first
// shortage sets err; everything after reads as zero. What is left over at the
// end is ignored: a later version may append.
type reader struct {
	b     []byte
	err   error
	clock int64 // the sender's, ms, once it was read
}

// bytes takes n bytes; the result aliases the payload.
func (r *reader) bytes(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.fail(errShort)
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) str() string { return string(r.bytes(int(r.u16()))) }

// count takes a number of elements of at least size bytes each, so that the
// caller may allocate for them.
func (r *reader) count(size int) int {
	n := int(r.u32())
	if n < 0 || n*size > len(r.b) {
		r.fail(errShort)
		return 0
	}
	return n
}

func (r *reader) peer() (id crdt.PeerID) {
	copy(id[:], r.bytes(len(id)))
	return id
}

func (r *reader) stream() crdt.StreamID { return crdt.StreamID(r.str()) }
