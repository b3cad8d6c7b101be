package standin

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"
)

// packer writes msgpack as msgspec does: the smallest form of every integer
// and length, floats always in 64 bits. It writes to memory, which cannot
// fail, so its methods drop the encoder's errors.
type packer struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

func newPacker() *packer {
	p := &packer{}
	p.enc = msgpack.NewEncoder(&p.buf)
	return p
}

func (p *packer) bytes() []byte   { return p.buf.Bytes() }
func (p *packer) array(n int)     { _ = p.enc.EncodeArrayLen(n) }
func (p *packer) mapping(n int)   { _ = p.enc.EncodeMapLen(n) }
func (p *packer) null()           { _ = p.enc.EncodeNil() }
func (p *packer) uint(v uint64)   { _ = p.enc.EncodeUint(v) }
func (p *packer) int(v int64)     { _ = p.enc.EncodeInt(v) }
func (p *packer) float(v float64) { _ = p.enc.EncodeFloat64(v) }
func (p *packer) str(s string)    { _ = p.enc.EncodeString(s) }
func (p *packer) bin(b []byte)    { _ = p.enc.EncodeBytes(b) }

// optional writes s, or nil if it is empty.
func (p *packer) optional(s string) {
	if s == "" {
		p.null()
		return
	}
	p.str(s)
}
