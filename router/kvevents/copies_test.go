package kvevents

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

// told is one event of a vLLM block pool: a store of hashes below parent
// (0: none) or a removal.
type told struct {
	stored         bool
	parent         uint64
	first, blocks  int
	medium, origin string
}

func stored(parent uint64, first, blocks int) told {
	return told{stored: true, parent: parent, first: first, blocks: blocks, medium: "GPU"}
}

func removed(hash int) told { return told{first: hash, blocks: 1, medium: "GPU"} }

// encodeTold writes a batch as vLLM 0.32 does.
func encodeTold(events ...told) []byte {
	p := new(pack).array(3).float(1).array(len(events))
	for _, e := range events {
		fields := 3
		if e.stored {
			fields = 7
		}
		if e.origin != "" {
			fields++
		}
		p.mapping(fields)
		if e.stored {
			p.str("type").str("BlockStored")
		} else {
			p.str("type").str("BlockRemoved")
		}
		p.str("block_hashes").array(e.blocks)
		for i := range e.blocks {
			p.num(uint64(e.first + i))
		}
		p.str("medium").str(e.medium)
		if e.origin != "" {
			p.str("origin").str(e.origin)
		}
		if !e.stored {
			continue
		}
		p.str("parent_block_hash")
		if e.parent == 0 {
			p.null()
		} else {
			p.num(e.parent)
		}
		p.str("token_ids").array(16 * e.blocks)
		for i := range 16 * e.blocks {
			p.num(uint64(16*e.first + i))
		}
		p.str("block_size").num(16).str("group_idx").num(0)
	}
	return p.null().b
}

// copiesAfter folds batches and returns the copies of each handle on a tier.
func copiesAfter(t *testing.T, tier crdt.Tier, batches ...[]byte) map[uint64]int {
	t.Helper()
	view := &crdttest.View{}
	s := crdt.NewStream(crdt.StreamConfig{ID: "s", Open: view.Open})
	var d Decoder
	p := mustPacker(t, VLLM, 16)
	for i, payload := range batches {
		b, err := d.Decode(payload)
		if err != nil || b.Dropped > 0 {
			t.Fatal(err, b.FirstFault)
		}
		slot, _, err := p.Pack(uint64(i+1), b)
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(&crdt.Delta{Stream: "s", Epoch: 1, Anchor: 1, Slots: []crdt.Slot{slot}}, 0)
	}
	out := map[uint64]int{}
	for e, m := range view.Metas() {
		out[e.Handle] = m.Copies(tier)
	}
	return out
}

// TestVLLMReportsAndCopies plays the events that vLLM 0.32.0's own BlockPool
// gave: three blocks stored, reports of them, the last one computed again, and
// the evictions, one for each physical block.
func TestVLLMReportsAndCopies(t *testing.T) {
	first, report, again := stored(0, 1, 3), stored(0, 1, 3), stored(2, 3, 1)
	for name, tc := range map[string]struct {
		events []told
		want   map[uint64]int
	}{
		"a report is no copy":              {[]told{first, report, report}, map[uint64]int{1: 1, 2: 1, 3: 1}},
		"one removal ends what was told":   {[]told{first, report, report, removed(3), removed(2), removed(1)}, map[uint64]int{}},
		"computed again is a copy":         {[]told{first, again, removed(3)}, map[uint64]int{1: 1, 2: 1, 3: 1}},
		"and is removed by itself":         {[]told{first, again, removed(3), removed(3)}, map[uint64]int{1: 1, 2: 1}},
		"a report between copies":          {[]told{first, again, report, removed(3), removed(3)}, map[uint64]int{1: 1, 2: 1}},
		"a report and what is new below":   {[]told{first, report, stored(3, 4, 1), removed(4)}, map[uint64]int{1: 1, 2: 1, 3: 1}},
		"a report heals a hole":            {[]told{report}, map[uint64]int{1: 1, 2: 1, 3: 1}},
		"told to be new":                   {[]told{first, {stored: true, first: 1, blocks: 1, medium: "GPU", origin: "NEW"}}, map[uint64]int{1: 2, 2: 1, 3: 1}},
		"told to be reused":                {[]told{first, {stored: true, parent: 2, first: 3, blocks: 1, medium: "GPU", origin: "REUSED"}}, map[uint64]int{1: 1, 2: 1, 3: 1}},
		"another medium is another copy":   {[]told{first, {stored: true, first: 1, blocks: 1, medium: "CPU"}, removed(1)}, map[uint64]int{1: 0, 2: 1, 3: 1}},
		"on another medium each is a copy": {[]told{{stored: true, first: 1, blocks: 1, medium: "CPU"}, {stored: true, first: 1, blocks: 1, medium: "CPU"}, {first: 1, blocks: 1, medium: "CPU"}}, map[uint64]int{1: 0}},
	} {
		var each [][]byte
		for _, e := range tc.events {
			each = append(each, encodeTold(e))
		}
		for how, batches := range map[string][][]byte{"one batch": {encodeTold(tc.events...)}, "a batch each": each} {
			got := copiesAfter(t, crdt.TierGPU, batches...)
			same := len(got) == len(tc.want)
			for h, n := range tc.want {
				c, there := got[h]
				same = same && there && c == n
			}
			if !same {
				t.Errorf("%s, %s: %v, want %v", name, how, got, tc.want)
			}
		}
	}
}
