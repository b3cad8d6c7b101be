package report

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
)

func TestHitsCountPromptsThatFoundABlockOfAPiece(t *testing.T) {
	var h PromptHits
	pieces := []index.TopPrefix{{Head: 2, Depth: 3, Blocks: 2}, {Head: 4, Depth: 9, Blocks: 6}, {Head: 9, Depth: 4, Blocks: 1}, {Head: 5000, Depth: 5000, Blocks: 1}}
	long := make([]radix.Key, 6000)
	for i := range long {
		long[i] = radix.Key(i + 1)
	}
	h.Add(7, long[:3], 3)
	h.Add(7, long[:8], 4)
	h.Add(7, long[:8], 3)  // more blocks than it found cached
	h.Add(7, long[:2], 90) // believed longer than the prompt
	h.Add(7, long, len(long))
	h.Add(7, nil, 4)
	hits, roots, of := h.count(pieces)
	if !slices.Equal(hits, []int{5, 2, 0, 0}) || !slices.Equal(roots, []radix.Key{7, 7, 0, 0}) || of != 6 {
		t.Errorf("%v of %d, of %v", hits, of, roots)
	}
	for range rememberedPrompts {
		h.Add(7, long[:2], 2)
	}
	if hits, roots, of = h.count(pieces); hits[0] != rememberedPrompts || hits[1] != 0 || roots[0] != 7 || of != rememberedPrompts {
		t.Errorf("after a full round %v of %d", hits, of)
	}
	if n := testing.AllocsPerRun(100, func() { h.Add(7, long[:2], 2) }); n != 0 {
		t.Errorf("I5: %v allocations a prompt", n)
	}
}
