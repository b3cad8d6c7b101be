package radix

import (
	"encoding/binary"
	"math/bits"
)

// Block is the token hash of one block of any length; order and length count.
// Sixteen tokens cost four independent multiplications and one to join them.
func (h *Hasher) Block(tokens []uint32) TokenHash {
	var acc uint64
	total := uint64(len(tokens))
	for len(tokens) >= 16 {
		acc = h.stripe(acc, total, (*[16]uint32)(tokens))
		tokens = tokens[16:]
	}
	if len(tokens) > 0 || total == 0 {
		var pad [16]uint32
		copy(pad[:], tokens)
		acc = h.stripe(acc, total, &pad)
	}
	return TokenHash(acc)
}

// stripe folds 16 tokens into acc. Padding is told apart by the length, which
// every stripe carries.
func (h *Hasher) stripe(acc, total uint64, t *[16]uint32) uint64 {
	w0, w1, w2, w3 := pair(t[0], t[1]), pair(t[2], t[3]), pair(t[4], t[5]), pair(t[6], t[7])
	w4, w5, w6, w7 := pair(t[8], t[9]), pair(t[10], t[11]), pair(t[12], t[13]), pair(t[14], t[15])
	if (w0|w1|w2|w3|w4|w5|w6|w7)&highBits != 0 {
		return h.wideStripe(acc, total, t)
	}
	f0 := fold(w0^h.lane[0], w1^h.lane[1])
	f1 := fold(w2^h.lane[2], w3^h.lane[3])
	f2 := fold(w4^h.lane[4], w5^h.lane[5])
	f3 := fold(w6^h.lane[6], w7^h.lane[7])
	return fold(acc^f0^bits.RotateLeft64(f2, 23)^h.join[0], f1^bits.RotateLeft64(f3, 41)^(h.join[1]+total))
}

// blocks16 is AppendBlocks for the usual grid, with the block's hash in the
// loop: calls would cost a third of the time. Blocks do not wait for each other
// but for the one multiplication that chains them. hashes is as long as keys,
// or nil if nobody asks.
func (h *Hasher) blocks16(hashes []TokenHash, keys []Key, parent Key, tokens []uint32) {
	for i := range keys {
		t := (*[16]uint32)(tokens)
		w0, w1, w2, w3 := pair(t[0], t[1]), pair(t[2], t[3]), pair(t[4], t[5]), pair(t[6], t[7])
		w4, w5, w6, w7 := pair(t[8], t[9]), pair(t[10], t[11]), pair(t[12], t[13]), pair(t[14], t[15])
		var block uint64
		if (w0|w1|w2|w3|w4|w5|w6|w7)&highBits != 0 {
			block = h.wideStripe(0, 16, t)
		} else {
			f0 := fold(w0^h.lane[0], w1^h.lane[1])
			f1 := fold(w2^h.lane[2], w3^h.lane[3])
			f2 := fold(w4^h.lane[4], w5^h.lane[5])
			f3 := fold(w6^h.lane[6], w7^h.lane[7])
			block = fold(f0^bits.RotateLeft64(f2, 23)^h.join[0], f1^bits.RotateLeft64(f3, 41)^(h.join[1]+16))
		}
		parent = h.nonzero(fold(uint64(parent)^h.chain[0], block^h.chain[1]))
		keys[i] = parent
		if i < len(hashes) {
			hashes[i] = TokenHash(block)
		}
		tokens = tokens[16:]
	}
}

// wideStripe handles ids of 2^31 and more, which no engine has: their high
// bits go into a stripe of their own, so that no lane can be zero there
// either.
func (h *Hasher) wideStripe(acc, total uint64, t *[16]uint32) uint64 {
	var low, high [16]uint32
	for i, x := range t {
		low[i], high[i] = x&^(1<<31), x>>31
	}
	return h.stripe(h.stripe(acc^h.wide, total, &high), total, &low)
}

func pair(a, b uint32) uint64 { return uint64(a) | uint64(b)<<32 }

// Bytes is the hash of a chunk of text. 512 bytes cost about 50 ns.
func (h *Hasher) Bytes(b []byte) TokenHash {
	var acc uint64
	total := uint64(len(b))
	for len(b) >= 32 {
		acc = h.byteStripe(acc, total, b)
		b = b[32:]
	}
	if len(b) > 0 || total == 0 {
		var pad [32]byte
		copy(pad[:], b)
		acc = h.byteStripe(acc, total, pad[:])
	}
	return TokenHash(acc)
}

func (h *Hasher) byteStripe(acc, total uint64, b []byte) uint64 {
	_ = b[31]
	f0 := fold(binary.LittleEndian.Uint64(b)^h.text[0], binary.LittleEndian.Uint64(b[8:])^h.text[1])
	f1 := fold(binary.LittleEndian.Uint64(b[16:])^h.text[2], binary.LittleEndian.Uint64(b[24:])^h.text[3])
	return fold(acc^f0^h.glue[0], f1^(h.glue[1]+total))
}
