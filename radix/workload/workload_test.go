package workload

import (
	"testing"

	"github.com/banyan-llm/banyan/radix"
)

// TestSizesAreThePublishedOnes pins the definition: 10.24 M stores for B and
// 7,681,920 tail blocks for L come from 40,010 holdings.
func TestSizesAreThePublishedOnes(t *testing.T) {
	holdings := 0
	for i := range uint64(FullChains) {
		holdings += len(holdersOf(i))
	}
	if holdings != 40_010 || holdings*(ChainBlocks-SharedBlocks) != 7_681_920 {
		t.Fatalf("%d holdings", holdings)
	}
	if x := Mix(0); x != 0xE220A8397B1DCDAF { // splitmix64's first output
		t.Fatalf("Mix(0) = %x", x)
	}
	if p := Prompt(17); len(p) != 8192 || string(p[:64]) != string(Prompt(1)[:64]) || string(p[4096:4160]) == string(Prompt(1)[4096:4160]) {
		t.Fatal("prompts 1 and 17 share the system text and nothing else")
	}
}

// TestDepthsAreTheTruth matches every kind of query against a tree of a small
// B and B1.
func TestDepthsAreTheTruth(t *testing.T) {
	h := radix.NewHasher(nil)
	for _, x := range []*Index{B(h, 400), B1(h, 400)} {
		tree := radix.NewTree()
		for range Holders {
			tree.AddHolder()
		}
		for _, c := range x.Chains {
			for _, holder := range c.Holders {
				tree.Store(radix.Holder(holder), x.Root, 1, c.Keys, c.Handles, func(radix.Fact) radix.Meta { return 1 })
			}
		}
		reader := tree.NewReader()
		var m radix.Match
		for _, kind := range []Kind{Full, Prefix, Miss, Mixed} {
			for i, q := range x.Queries(kind, 50) {
				reader.Match(q.Keys, &m)
				for holder, want := range x.Depths(q) {
					if got := m.Depth(radix.ClassGPU, radix.Holder(holder)); got != want {
						t.Fatalf("%s %d: holder %d has %d, want %d", kind, i, holder, got, want)
					}
				}
			}
		}
		tree.Close()
	}
}
