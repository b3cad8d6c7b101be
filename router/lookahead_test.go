package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/kvevents"
	"github.com/banyan-llm/banyan/router/token"
)

// aheadEngine is the prefix cache of a vLLM 0.33 with EAGLE or MTP: the hash of a
// page covers the token behind it too, so a page is only reused before that token
// (get_request_block_hasher, num_hash_lookahead_tokens 1).
type aheadEngine struct {
	page   int               // tokens
	cached map[uint64]uint64 // hash -> its parent; 0: none
	hash   map[string]uint64 // of a prefix with the token behind it
}

const aheadGrid = 16

// chain is the hash of every page that has one.
func (e *aheadEngine) chain(prompt []uint32) (hashes []uint64) {
	for end := e.page; end < len(prompt); end += e.page {
		text := fmt.Sprint(prompt[:end+1])
		if e.hash[text] == 0 {
			e.hash[text] = uint64(len(e.hash)+1) * 0x9e3779b97f4a7c15
		}
		hashes = append(hashes, e.hash[text])
	}
	return hashes
}

// hit is how many pages of a prompt the engine takes from its cache.
func (e *aheadEngine) hit(chain []uint64) (n int) {
	for n < len(chain) {
		if _, ok := e.cached[chain[n]]; !ok {
			break
		}
		n++
	}
	return n
}

// serve caches a prompt and says so.
func (e *aheadEngine) serve(prompt []uint32) []kvevents.Event {
	chain := e.chain(prompt)
	at := e.hit(chain)
	if at == len(chain) {
		return nil
	}
	ev := kvevents.Event{
		Type: kvevents.Stored, Hashes: chain[at:], Tokens: prompt[at*e.page : len(chain)*e.page], BlockSize: e.page, Medium: "GPU", Kind: "full_attention",
	}
	if at > 0 {
		ev.HasParent, ev.Parent = true, chain[at-1]
	}
	for i := at; i < len(chain); i++ {
		ev.Ahead = append(ev.Ahead, prompt[(i+1)*e.page])
		e.cached[chain[i]] = 0
		if i > 0 {
			e.cached[chain[i]] = chain[i-1]
		}
	}
	return []kvevents.Event{ev}
}

// evict drops a page that no other hangs below, as vLLM does, and says so.
func (e *aheadEngine) evict(rng *rand.Rand) []kvevents.Event {
	var leaves []uint64
	parents := map[uint64]bool{}
	for _, p := range e.cached {
		parents[p] = true
	}
	for h := range e.cached {
		if !parents[h] {
			leaves = append(leaves, h)
		}
	}
	if len(leaves) == 0 {
		return nil
	}
	slices.Sort(leaves)
	h := leaves[rng.IntN(len(leaves))]
	delete(e.cached, h)
	return []kvevents.Event{{Type: kvevents.Removed, Hashes: []uint64{h}, Medium: "GPU"}}
}

// TestPagesCountBeforeTheirTokenOnly: what is matched at an engine whose hashes
// look ahead is what it takes from its cache, to the page, through stores of
// equal tokens under several hashes and evictions, slots that come late too.
func TestPagesCountBeforeTheirTokenOnly(t *testing.T) {
	hasher := radix.NewHasher([]byte("0123456789abcdef0123456789abcdef"))
	tokens, err := token.New(token.Config{Hasher: hasher, Grid: aheadGrid, Mode: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	shorter := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		e := &aheadEngine{aheadGrid * (1 + int(seed%2)), map[uint64]uint64{}, map[string]uint64{}}
		x := index.New(index.Config{Hasher: hasher, Grid: aheadGrid, RingBytes: 8 << 20, Predictions: 1 << 10})
		pk, _ := kvevents.NewPacker(kvevents.PackConfig{Engine: kvevents.VLLM, Grid: aheadGrid, Hasher: hasher})
		id, seq := crdt.NewStreamID("http://a", 0), uint64(0)
		var late []crdt.Slot
		tell := func(events []kvevents.Event) {
			if events == nil {
				return
			}
			seq++
			slot, _, err := pk.Pack(seq, &kvevents.Batch{TS: int64(seq), Events: events})
			if err != nil {
				t.Fatal(err)
			}
			if late = append(late, slot); rng.IntN(4) == 0 {
				return // another slot comes first
			}
			for len(late) > 0 {
				i := rng.IntN(len(late))
				x.Apply(&crdt.Delta{Stream: id, Epoch: 1, Anchor: 1, Slots: late[i : i+1]}, int64(seq))
				late = slices.Delete(late, i, i+1)
			}
		}
		for step := range 300 {
			var prompt []uint32 // pages of few kinds, told apart by their first token
			for range rng.IntN(5) {
				prompt = append(append(prompt, uint32(rng.IntN(2))), make([]uint32, e.page-1)...)
			}
			prompt = append(append(prompt, uint32(rng.IntN(3))), make([]uint32, rng.IntN(e.page-1))...)
			if len(late) == 0 {
				keys := tokens.Keys(context.Background(), &token.Query{Tokens: prompt})
				var v index.View
				x.Match(keys.Keys, &v)
				blind := v.Depth(x.Ref(id)).GPU
				x.Match(keys.Keys, &v)
				v.Before(keys.Next)
				most, perPage := (len(prompt)-1)/e.page, e.page/aheadGrid // never the last token
				got, want := min(v.Depth(x.Ref(id)).GPU/perPage, most), e.hit(e.chain(prompt))
				if got != want {
					t.Fatalf("seed %d, step %d: matched %d pages of a prompt of %d tokens, the engine takes %d", seed, step, got, len(prompt), want)
				}
				if min(blind/perPage, most) > want {
					shorter++
				}
			}
			tell(e.serve(prompt))
			for range rng.IntN(4) {
				tell(e.evict(rng))
			}
		}
	}
	if shorter < 100 {
		t.Errorf("only %d matches depended on the token behind: the test has lost its teeth", shorter)
	}
	t.Logf("%d matches were a page shorter for the token behind", shorter)
}
