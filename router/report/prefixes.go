package report

import (
	"fmt"
	"sync"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/requests"
)

// Bounds of what is remembered of prompts: 4 MiB at most.
const (
	rememberedPrompts = 512
	rememberedBlocks  = 1024 // of each; 16,384 tokens on the usual grid
)

// PromptHits remembers which blocks the last prompts found cached at the
// replica they went to, to tell how much each piece of the tree is used.
// Counters in the tree would cost every match a write; this costs one copy.
type PromptHits struct {
	mu   sync.Mutex // guards below
	ring [rememberedPrompts]struct {
		keys []radix.Key
		root radix.Key // names whose prompt it was
	}
	next int // number of prompts ever added
}

// Add remembers the first blocks of a prompt, those found cached. O(blocks), no
// allocation once the ring is full.
func (h *PromptHits) Add(root radix.Key, keys []radix.Key, blocks int) {
	keys = keys[:max(0, min(blocks, len(keys), rememberedBlocks))]
	h.mu.Lock()
	defer h.mu.Unlock()
	at := &h.ring[h.next%rememberedPrompts]
	at.root, at.keys = root, append(at.keys[:0], keys...)
	h.next++
}

// count tells of each piece how many of the last prompts found it cached, be it
// only its first block, and the root of the first of them. O(prompts x pieces),
// some 2 ms for 200 pieces.
func (h *PromptHits) count(pieces []index.TopPrefix) (hits []int, roots []radix.Key, of int) {
	hits, roots = make([]int, len(pieces)), make([]radix.Key, len(pieces))
	h.mu.Lock()
	defer h.mu.Unlock()
	of = min(h.next, rememberedPrompts)
	for n := range of {
		prompt := &h.ring[(h.next-of+n)%rememberedPrompts]
		for i := range pieces {
			if at := pieces[i].Depth - pieces[i].Blocks; at >= 0 && at < len(prompt.keys) && prompt.keys[at] == pieces[i].Head {
				if hits[i]++; hits[i] == 1 {
					roots[i] = prompt.root
				}
			}
		}
	}
	return hits, roots, of
}

// maxRootNames bounds the names below.
const maxRootNames = 1024

// RootNames is whose prompts a root of the tree stands for: the model, and the
// tenant that was first seen with it.
type RootNames struct {
	mu sync.RWMutex // guards below
	of map[radix.Key][2]string
}

// Note names a root, if it has no name yet.
func (r *RootNames) Note(root radix.Key, model, tenant string) {
	r.mu.RLock()
	_, ok := r.of[root]
	r.mu.RUnlock()
	if ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= maxRootNames {
		r.of = map[radix.Key][2]string{}
	}
	r.of[root] = [2]string{requests.Word(model), requests.Word(tenant)}
}

func (r *RootNames) find(root radix.Key) (model, tenant string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	name := r.of[root]
	return name[0], name[1]
}

// Prefixes tells of the pieces of the tree that the listed replicas hold: whose
// prompts they are of, and how much they are used. grid is tokens a block,
// names those of replicas.
func Prefixes(top []index.TopPrefix, hits *PromptHits, roots *RootNames, grid int, names map[crdt.StreamID]string) []console.Prefix {
	out := []console.Prefix{}
	found, of, total := hits.count(top)
	for i, t := range top {
		q := console.Prefix{Key: keyText(t.Key), Parent: keyText(t.Parent), Tokens: t.Depth * grid, Blocks: t.Blocks}
		q.Model, q.Tenant = roots.find(of[i])
		if t.Under != 0 {
			q.Under = keyText(t.Under)
		}
		if total > 0 {
			share := float64(found[i]) / float64(total)
			q.HitShare = &share
		}
		for _, id := range t.Holders {
			if name, ok := names[id]; ok {
				q.Holders = append(q.Holders, name)
			}
		}
		if len(q.Holders) > 0 {
			out = append(out, q)
		}
	}
	return out
}

func keyText(k radix.Key) string { return fmt.Sprintf("%016x", uint64(k)) }
