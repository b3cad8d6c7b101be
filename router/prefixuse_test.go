package router

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
)

func TestHitsCountPromptsThatFoundABlockOfAPiece(t *testing.T) {
	var h promptHits
	pieces := []index.TopPrefix{{Head: 2, Depth: 3, Blocks: 2}, {Head: 4, Depth: 9, Blocks: 6}, {Head: 9, Depth: 4, Blocks: 1}, {Head: 5000, Depth: 5000, Blocks: 1}}
	long := make([]radix.Key, 6000)
	for i := range long {
		long[i] = radix.Key(i + 1)
	}
	h.add(7, long[:3], 3)
	h.add(7, long[:8], 4)
	h.add(7, long[:8], 3)  // more blocks than it found cached
	h.add(7, long[:2], 90) // believed longer than the prompt
	h.add(7, long, len(long))
	h.add(7, nil, 4)
	hits, roots, of := h.count(pieces)
	if !slices.Equal(hits, []int{5, 2, 0, 0}) || !slices.Equal(roots, []radix.Key{7, 7, 0, 0}) || of != 6 {
		t.Errorf("%v of %d, of %v", hits, of, roots)
	}
	for range rememberedPrompts {
		h.add(7, long[:2], 2)
	}
	if hits, roots, of = h.count(pieces); hits[0] != rememberedPrompts || hits[1] != 0 || roots[0] != 7 || of != rememberedPrompts {
		t.Errorf("after a full round %v of %d", hits, of)
	}
	if n := testing.AllocsPerRun(100, func() { h.add(7, long[:2], 2) }); n != 0 {
		t.Errorf("%v allocations a prompt", n)
	}
}
