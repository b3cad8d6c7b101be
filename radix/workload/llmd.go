package workload

import (
	"sort"

	"github.com/banyan-llm/banyan/radix"
)

const (
	grid   = 16
	vocab  = 128_000
	tagTop = 5 << 60 // prefixes
	tagEnd = 7 << 60 // tails
)

// LIndex is llm-d's workload: every holder holds all shared prefixes, tails
// are on one to three holders.
type LIndex struct {
	Root     radix.Key
	Prefixes []Chain // of 64 blocks
	Tails    []Chain // of 192 blocks; Prefix says what they hang below
}

// L makes the workload with that many chains (20,000 in full).
func L(h *radix.Hasher, chains int) *LIndex {
	x := &LIndex{Root: h.Root("workload")}
	for p := range uint64(Shared) {
		x.Prefixes = append(x.Prefixes, tokenChain(h, x.Root, tagTop, p, SharedBlocks))
	}
	cdf := zipf(Shared)
	for c := range uint64(chains) {
		p := sort.SearchFloat64s(cdf, float64(Mix(9<<60+c)>>11)/(1<<53))
		p = min(p, Shared-1)
		parent := x.Prefixes[p].Keys[SharedBlocks-1]
		tail := tokenChain(h, parent, tagEnd, c, ChainBlocks-SharedBlocks)
		tail.Prefix, tail.Holders = p, holdersOf(c)
		x.Tails = append(x.Tails, tail)
	}
	return x
}

func tokenChain(h *radix.Hasher, parent radix.Key, tag, id uint64, blocks int) Chain {
	tokens := Tokens(nil, tag, id, blocks*grid)
	c := Chain{Keys: h.AppendKeys(make([]radix.Key, 0, blocks), parent, grid, tokens), Handles: make([]uint64, blocks)}
	for j, k := range c.Keys {
		c.Handles[j] = Mix(uint64(k))
	}
	return c
}

// Tokens appends n tokens of stream (tag, id).
func Tokens(dst []uint32, tag, id uint64, n int) []uint32 {
	for i := range uint64(n) {
		dst = append(dst, uint32(Mix(tag+id<<24+i)%vocab))
	}
	return dst
}

// zipf is the cumulative distribution of ranks with exponent 1.
func zipf(n int) []float64 {
	cdf := make([]float64, n)
	sum := 0.0
	for i := range cdf {
		sum += 1 / float64(i+1)
		cdf[i] = sum
	}
	for i := range cdf {
		cdf[i] /= sum
	}
	return cdf
}

// Queries makes n requests of 256 blocks: half repeat a chain, two fifths have
// its prefix and a new tail, a tenth is cold.
func (x *LIndex) Queries(h *radix.Hasher, n int) []Query {
	out := make([]Query, n)
	for r := range out {
		out[r] = x.query(h, uint64(r))
	}
	return out
}

func (x *LIndex) query(h *radix.Hasher, r uint64) Query {
	p := int(Mix(14<<60+r) % uint64(len(x.Tails)))
	prefix := x.Prefixes[x.Tails[p].Prefix].Keys
	q := Query{Chain: p, Keys: append(make([]radix.Key, 0, ChainBlocks), prefix...)}
	switch kind := Mix(13<<60+r) % 10; {
	case kind < 5:
		q.Known = ChainBlocks
		q.Keys = append(q.Keys, x.Tails[p].Keys...)
	case kind < 9:
		q.Known = SharedBlocks
		id := uint64(len(x.Tails)) + r
		q.Keys = h.AppendKeys(q.Keys, prefix[SharedBlocks-1], grid, Tokens(nil, tagEnd, id, 192*grid))
	default:
		cold := Tokens(nil, tagTop, 1024+r, SharedBlocks*grid)
		cold = Tokens(cold, tagEnd, 1<<22+r, 192*grid)
		q.Keys = h.AppendKeys(q.Keys[:0], x.Root, grid, cold)
	}
	return q
}
