package kvevents

import "testing"

// grouped is an event of one cache group of a hybrid model.
type grouped struct {
	stored        bool
	group         int
	kind          string
	window        uint64
	parent        uint64
	first, blocks uint64 // hashes: those of the prefixes up to their ends
	skip          uint64 // leading blocks that are null: their tokens are told, not they
}

func encodeGrouped(size int, events ...grouped) []byte {
	p := new(pack).array(3).float(1).array(len(events))
	for _, e := range events {
		if !e.stored {
			p.mapping(4).str("type").str("BlockRemoved").str("medium").str("GPU").str("group_idx").num(uint64(e.group))
			p.str("block_hashes").array(int(e.blocks))
			for i := range e.blocks {
				p.num(e.first + i)
			}
			continue
		}
		p.mapping(9).str("type").str("BlockStored").str("medium").str("GPU").str("group_idx").num(uint64(e.group))
		p.str("block_hashes").array(int(e.blocks - e.skip))
		for i := e.skip; i < e.blocks; i++ {
			p.num(e.first + i)
		}
		p.str("parent_block_hash")
		if e.parent == 0 {
			p.null()
		} else {
			p.num(e.parent)
		}
		p.str("token_ids").array(int(e.blocks) * size)
		for i := range e.blocks * uint64(size) {
			p.num((e.first-1)*uint64(size) + i)
		}
		p.str("block_size").num(uint64(size)).str("kv_cache_spec_kind").str(e.kind)
		p.str("kv_cache_spec_sliding_window")
		if e.window == 0 {
			p.null()
		} else {
			p.num(e.window)
		}
	}
	return p.null().b
}

// TestHybridModelsReuseUpToACheckpoint: a request reuses what all cache groups
// have. Hash i is that of the prefix of i blocks, in every group.
func TestHybridModelsReuseUpToACheckpoint(t *testing.T) {
	const size = 32 // two grid blocks
	attention := func(group int, first, n uint64) grouped {
		return grouped{stored: true, group: group, kind: "full_attention", parent: first - 1, first: first, blocks: n}
	}
	mamba := func(group int, n, skip uint64) grouped {
		return grouped{stored: true, group: group, kind: "mamba", first: 1, blocks: n, skip: skip}
	}
	window := func(group int, tokens, n, skip uint64) grouped {
		return grouped{stored: true, group: group, kind: "sliding_window", window: tokens, first: 1, blocks: n, skip: skip}
	}
	gone := func(group int, hash uint64) grouped { return grouped{group: group, first: hash, blocks: 1} }
	for name, tc := range map[string]struct {
		events []grouped
		want   int // engine blocks
	}{
		"attention alone":                 {[]grouped{attention(0, 1, 8)}, 8},
		"a checkpoint at the end":         {[]grouped{attention(0, 1, 8), mamba(1, 8, 7)}, 8},
		"the largest below":               {[]grouped{attention(0, 1, 8), mamba(1, 3, 2), mamba(1, 5, 4)}, 5},
		"recurrent group first":           {[]grouped{mamba(0, 5, 4), attention(1, 1, 8)}, 5},
		"a checkpoint beyond attention":   {[]grouped{attention(0, 1, 4), mamba(1, 3, 2), mamba(1, 6, 5)}, 3},
		"the checkpoint is evicted":       {[]grouped{attention(0, 1, 8), mamba(1, 3, 2), mamba(1, 5, 4), gone(1, 5)}, 3},
		"its removal is not attention's":  {[]grouped{attention(0, 1, 8), mamba(1, 8, 7), mamba(1, 4, 3), gone(1, 4)}, 8},
		"attention is evicted":            {[]grouped{attention(0, 1, 8), mamba(1, 3, 2), mamba(1, 8, 7), gone(0, 8)}, 3},
		"two recurrent groups":            {[]grouped{attention(0, 1, 8), mamba(1, 3, 2), mamba(1, 5, 4), mamba(2, 3, 2)}, 3},
		"a whole window":                  {[]grouped{attention(0, 1, 8), window(1, 65, 8, 6)}, 8},
		"a window into a third page":      {[]grouped{attention(0, 1, 8), window(1, 66, 8, 5)}, 8},
		"one that lacks that page":        {[]grouped{attention(0, 1, 8), window(1, 66, 8, 6)}, 0},
		"a window with a hole":            {[]grouped{attention(0, 1, 8), window(1, 65, 8, 0), gone(1, 7)}, 6},
		"a window longer than the prompt": {[]grouped{attention(0, 1, 8), window(1, 4096, 8, 0)}, 8},
		"a longer one that lacks a head":  {[]grouped{attention(0, 1, 8), window(1, 4096, 8, 1)}, 0},
		"a window of one token":           {[]grouped{attention(0, 1, 8), window(1, 1, 8, 7)}, 8},
		"nothing of the recurrent one":    {[]grouped{attention(0, 1, 8), mamba(1, 3, 2), gone(1, 3)}, 8},
	} {
		f := newFollower(t, VLLM)
		for _, e := range tc.events {
			f.take(encodeGrouped(size, e))
		}
		prompt := run{blocks: 8, size: size, token: 0}.tokens()
		if n := f.cached(prompt, "", ""); n != tc.want*size/16 {
			t.Errorf("%s: %d grid blocks, want %d", name, n, tc.want*size/16)
		}
		joined := newFollower(t, VLLM)
		if err := joined.index.Join(f.index.Cut("s"), 1); err != nil {
			t.Fatal(err)
		}
		a, _ := f.index.Digest("s")
		b, _ := joined.index.Digest("s")
		if n := joined.cached(prompt, "", ""); n != tc.want*size/16 || a.Base != b.Base {
			t.Errorf("%s: %d grid blocks after a snapshot, want %d; %+v, %+v", name, n, tc.want*size/16, a.Base, b.Base)
		}
	}
}
