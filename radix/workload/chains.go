package workload

import "github.com/banyan-llm/banyan/radix"

// The sizes that B, B1 and L share.
const (
	Holders      = 64
	Shared       = 1024 // shared prefixes
	SharedBlocks = 64
	ChainBlocks  = 256
	FullChains   = 20_000
)

// Chain is one prompt's blocks and who holds them.
type Chain struct {
	Keys    []radix.Key
	Handles []uint64
	Holders []int
	Prefix  int // which shared prefix it begins with
}

// Index is a set of chains to store and the queries to ask.
type Index struct {
	Root   radix.Key
	Chains []Chain

	hasher *radix.Hasher
	b1     bool
}

// Mix is the finaliser of splitmix64 over x + gamma.
func Mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// B has chains on one to three holders: with all 20,000 chains 10.24 M stores,
// 9.6 M facts, 3.9 M keys.
func B(h *radix.Hasher, chains int) *Index { return newIndex(h, chains, false) }

// B1 is B with one holder per chain: 5.12 M stores, 4.32 M facts.
func B1(h *radix.Hasher, chains int) *Index { return newIndex(h, chains, true) }

func newIndex(h *radix.Hasher, chains int, b1 bool) *Index {
	x := &Index{Root: h.Root("workload"), Chains: make([]Chain, chains), hasher: h, b1: b1}
	for i := range x.Chains {
		x.Chains[i] = x.chain(uint64(i))
	}
	return x
}

func (x *Index) chain(i uint64) Chain {
	p := Mix(i^0xABCD) % Shared
	c := Chain{Prefix: int(p), Keys: x.keys(p, 1<<32+1000*i, SharedBlocks)}
	c.Handles = make([]uint64, len(c.Keys))
	for j, k := range c.Keys {
		c.Handles[j] = Mix(uint64(k))
	}
	if x.b1 {
		c.Holders = []int{int((7*p + 13*(i%8)) % Holders)}
		return c
	}
	c.Holders = holdersOf(i)
	return c
}

// keys chains shared blocks of prefix p and then blocks from tail on.
func (x *Index) keys(p, tail, shared uint64) []radix.Key {
	keys := make([]radix.Key, ChainBlocks)
	k := x.Root
	for j := range uint64(ChainBlocks) {
		block := Mix(tail + j)
		if j < shared {
			block = Mix(1000*p + j)
		}
		k = x.hasher.Chain(k, radix.TokenHash(block))
		keys[j] = k
	}
	return keys
}

// holdersOf draws one to three distinct holders of chain i.
func holdersOf(i uint64) []int {
	n := int(1 + Mix(10<<60+i)%3)
	var out []int
	for k := uint64(0); len(out) < n; k++ {
		h := int(Mix(11<<60+64*i+k) % Holders)
		known := false
		for _, o := range out {
			known = known || o == h
		}
		if !known {
			out = append(out, h)
		}
	}
	return out
}

// Kind is a kind of query.
type Kind string

// The kinds of query.
const (
	Full   Kind = "full"   // an existing chain
	Prefix Kind = "prefix" // its shared prefix, then a new tail
	Miss   Kind = "miss"   // the first block is unknown
	Mixed  Kind = "mixed"  // half full, two fifths prefix, a tenth miss
)

// Query is a prompt's keys with the truth about it.
type Query struct {
	Keys  []radix.Key
	Chain int // the chain it was made from
	// Known is how many leading keys are that chain's.
	Known int
}

// Queries makes n queries of one kind.
func (x *Index) Queries(kind Kind, n int) []Query {
	out := make([]Query, n)
	for i := range out {
		out[i] = x.query(kind, uint64(i))
	}
	return out
}

func (x *Index) query(kind Kind, i uint64) Query {
	// Neighbouring queries ask for far chains, as requests do.
	chain := int(Mix(15<<60+i) % uint64(len(x.Chains)))
	if kind == Mixed {
		switch i % 10 {
		case 0, 1, 2, 3, 4:
			kind = Full
		case 5, 6, 7, 8:
			kind = Prefix
		default:
			kind = Miss
		}
	}
	q := Query{Chain: chain, Known: ChainBlocks}
	switch kind {
	case Full:
		q.Keys = x.Chains[chain].Keys
	case Prefix:
		q.Known = SharedBlocks
		q.Keys = x.keys(uint64(x.Chains[chain].Prefix), 1<<40+1000*i, SharedBlocks)
	case Miss:
		q.Known = 0
		q.Keys = x.keys(0, 1<<41+1000*i, 0)
	}
	return q
}

// Depths is the truth of a query when every chain is stored: per holder the
// number of consecutive blocks.
func (x *Index) Depths(q Query) [Holders]int {
	var out [Holders]int
	if q.Known == 0 {
		return out
	}
	for _, c := range x.Chains {
		if c.Prefix == x.Chains[q.Chain].Prefix {
			for _, h := range c.Holders {
				out[h] = SharedBlocks
			}
		}
	}
	if q.Known == ChainBlocks {
		for _, h := range x.Chains[q.Chain].Holders {
			out[h] = ChainBlocks
		}
	}
	return out
}
