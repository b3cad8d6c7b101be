package radix

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
)

// HashVersion names the hash functions of this package. It is mixed into
// every constant and so into every root: keys of two versions never meet.
const HashVersion = 1

// highBits is set in both halves of every lane constant. A lane is two token
// ids below 2^31 xored with such a constant, so it is never zero (I9).
const highBits = 0x8000000080000000

// Hasher turns tokens into token hashes and chained block keys. Its constants
// are derived from a secret of the mesh, so that nobody outside can aim for a
// collision. It is immutable and safe for concurrent use. It is integer
// arithmetic only: equal on every machine.
//
// A collision can only misroute a request: the engine still compares tokens.
type Hasher struct {
	lane  [8]uint64 // token pairs, both halves >= 2^31
	join  [2]uint64 // stripes of 16 tokens
	chain [2]uint64
	extra [2]uint64
	text  [4]uint64 // byte lanes
	glue  [2]uint64 // byte stripes
	root  [3]uint64
	wide  uint64 // start of blocks with an id >= 2^31
	zero  Key    // stands for a chain result of 0
	print uint64
	mask  [2]uint64
}

// NewHasher derives a Hasher from a secret of any length; an empty secret is
// allowed and gives public constants. Costs about 10 us.
func NewHasher(secret []byte) *Hasher {
	h := new(Hasher)
	seed := sha256.Sum256(append([]byte{'b', 'a', 'n', 'y', 'a', 'n', HashVersion}, secret...))
	var count byte
	next := func() uint64 {
		sum := sha256.Sum256(append(seed[:], count))
		count++
		return binary.LittleEndian.Uint64(sum[:])
	}
	for _, group := range [][]uint64{h.lane[:], h.join[:], h.chain[:], h.extra[:], h.text[:], h.glue[:], h.root[:]} {
		for i := range group {
			group[i] = next() | highBits
		}
	}
	h.wide = next()
	h.zero = Key(next() | 1)
	h.print = next()
	h.mask = [2]uint64{next(), next()}
	return h
}

// Fingerprint names the version and the secret and reveals neither. Peers
// whose fingerprints differ must not exchange keys.
func (h *Hasher) Fingerprint() uint64 { return h.print }

// Root is the key of a namespace, the parent of its first blocks. Fields are
// delimited: ("ab"), ("a", "b") and ("a", "b", "") differ. It is never 0.
func (h *Hasher) Root(fields ...string) Key {
	k := h.root[0]
	for _, field := range fields {
		k = fold(k^h.root[1], uint64(h.Bytes([]byte(field)))^h.root[2])
	}
	k = fold(k^h.root[0], uint64(len(fields))^h.root[2])
	return h.nonzero(k)
}

// Chain is the key of the block that follows parent and has token hash t. It
// is never 0.
func (h *Hasher) Chain(parent Key, t TokenHash) Key {
	return h.nonzero(fold(uint64(parent)^h.chain[0], uint64(t)^h.chain[1]))
}

// After names the token that stands behind a page, for pages that are of use only
// before that one. It travels between peers in place of the token.
func (h *Hasher) After(token uint32) uint32 { return uint32(h.Block([]uint32{token})) }

// Extra folds what else tells a block apart (an image's hash, for example)
// into its token hash. An empty extra is not the same as no call.
func (h *Hasher) Extra(t TokenHash, extra []byte) TokenHash {
	return TokenHash(fold(uint64(t)^h.extra[0], uint64(h.Bytes(extra))^h.extra[1]))
}

// Mask is what hides word i of what an engine's block holds, where the words
// themselves must travel between peers. It is equal for equal handles.
func (h *Hasher) Mask(handle uint64, i int) uint64 {
	return fold(handle^h.mask[0], h.mask[1]+uint64(i)<<1|1)
}

// AppendHashes appends the token hash of every whole block of grid tokens.
// Tokens behind the last whole block are ignored. A grid below 1 has no
// blocks.
func (h *Hasher) AppendHashes(dst []TokenHash, grid int, tokens []uint32) []TokenHash {
	if grid < 1 {
		return dst
	}
	for ; len(tokens) >= grid; tokens = tokens[grid:] {
		dst = append(dst, h.Block(tokens[:grid]))
	}
	return dst
}

// AppendKeys appends the key of every whole block of grid tokens, chained
// from parent. It costs about 7 ns a block of 16 tokens and allocates nothing
// if dst has room.
func (h *Hasher) AppendKeys(dst []Key, parent Key, grid int, tokens []uint32) []Key {
	_, dst = h.appendBlocks(nil, dst, false, parent, grid, tokens)
	return dst
}

// AppendBlocks is AppendHashes and AppendKeys in one pass, for little more than
// the cost of AppendKeys.
func (h *Hasher) AppendBlocks(hashes []TokenHash, keys []Key, parent Key, grid int, tokens []uint32) ([]TokenHash, []Key) {
	return h.appendBlocks(hashes, keys, true, parent, grid, tokens)
}

func (h *Hasher) appendBlocks(hashes []TokenHash, keys []Key, both bool, parent Key, grid int, tokens []uint32) ([]TokenHash, []Key) {
	if grid < 1 {
		return hashes, keys
	}
	n, from, at := len(tokens)/grid, len(hashes), len(keys)
	keys = slices.Grow(keys, n)[:at+n]
	if both {
		hashes = slices.Grow(hashes, n)[:from+n]
	}
	if grid == 16 {
		h.blocks16(hashes[from:], keys[at:], parent, tokens)
		return hashes, keys
	}
	for i := range n {
		t := h.Block(tokens[i*grid : (i+1)*grid])
		parent = h.Chain(parent, t)
		keys[at+i] = parent
		if both {
			hashes[from+i] = t
		}
	}
	return hashes, keys
}

func (h *Hasher) nonzero(k uint64) Key {
	if k == 0 {
		return h.zero
	}
	return Key(k)
}

// fold multiplies to 128 bits and xors the halves.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
