package kvevents

import (
	"encoding/binary"
	"math"
)

// pack is a small msgpack encoder for tests.
type pack struct{ b []byte }

func (p *pack) array(n int) *pack   { return p.head(0xdc, n) }
func (p *pack) mapping(n int) *pack { return p.head(0xde, n) }

func (p *pack) head(t byte, n int) *pack {
	p.b = binary.BigEndian.AppendUint16(append(p.b, t), uint16(n))
	return p
}

func (p *pack) null() *pack {
	p.b = append(p.b, 0xc0)
	return p
}

func (p *pack) num(v uint64) *pack {
	switch {
	case v < 0x80:
		p.b = append(p.b, byte(v))
	case v < 1<<8:
		p.b = append(p.b, 0xcc, byte(v))
	case v < 1<<16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xcd), uint16(v))
	case v < 1<<32:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xce), uint32(v))
	default:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcf), v)
	}
	return p
}

func (p *pack) float(v float64) *pack {
	p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcb), math.Float64bits(v))
	return p
}

func (p *pack) str(s string) *pack {
	if len(s) < 32 {
		p.b = append(p.b, 0xa0|byte(len(s)))
	} else {
		p.b = append(p.b, 0xd9, byte(len(s)))
	}
	p.b = append(p.b, s...)
	return p
}

func (p *pack) nums(v ...uint64) *pack {
	p.array(len(v))
	for _, x := range v {
		p.num(x)
	}
	return p
}

// run is a store for tests: hashes first, first+1, ... below parent (0: root).
type run struct {
	first, parent uint64
	blocks, size  int
	token         uint64 // of the first position; the rest count up
	lora, salt    string
	sglang        bool
}

// tokens are the run's token ids.
func (r run) tokens() []uint32 {
	out := make([]uint32, r.blocks*r.size)
	for i := range out {
		out[i] = uint32(r.token) + uint32(i)
	}
	return out
}

// appendTo writes the run as a map event.
func (r run) appendTo(p *pack) {
	n := 7
	if r.salt != "" {
		n++
	}
	p.mapping(n).str("type").str("BlockStored").str("block_hashes").array(r.blocks)
	for i := range r.blocks {
		p.num(r.first + uint64(i))
	}
	p.str("parent_block_hash")
	if r.parent == 0 {
		p.null()
	} else {
		p.num(r.parent)
	}
	p.str("token_ids").array(r.blocks * r.size)
	for _, t := range r.tokens() {
		p.num(uint64(t))
	}
	p.str("block_size").num(uint64(r.size)).str("medium").str("GPU").str("lora_name")
	if r.lora == "" {
		p.null()
	} else {
		p.str(r.lora)
	}
	if r.salt != "" && r.sglang {
		p.str("cache_salt").str(r.salt)
	} else if r.salt != "" {
		p.str("extra_keys").array(r.blocks).array(1).str(r.salt)
		for range r.blocks - 1 {
			p.null()
		}
	}
}

// encodeRuns writes a batch of map-form stores.
func encodeRuns(ts float64, runs ...run) []byte {
	p := new(pack).array(3).float(ts).array(len(runs))
	for _, r := range runs {
		r.appendTo(p)
	}
	return p.null().b
}
