package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// The block hashes of some engines cover the tokens behind the block too (vLLM
// 0.33 with EAGLE or MTP: one token, of several MTP modules as many as there
// are). Equal tokens are then stored under several hashes, and a prompt reuses a
// page only if it goes on as the page's first request did. Keys of blocks do not
// look ahead, so that keys of all engines and predictions stay comparable; what
// stands behind a page is kept beside its fact, and the last page that a prompt
// matches is looked at more closely. Of pages before it nothing need be known:
// what stands behind them is the next matched page.
//
// This is a hint: it is in no snapshot and no digest, and a page of which nothing
// is known counts. After a snapshot, or if hashes cover more than one token (the
// others are not kept), a match may be a page too long.

// aheadBytes is what a record takes beside its fact, with its share of the map.
const aheadBytes = 56

// goesOn is what stands behind one page.
type goesOn struct {
	handle uint64
	after  uint32 // radix.Hasher.After of the token
	blocks int    // of the page
	other  *goesOn
}

// lookaheads are the pages of one incarnation of which it is known, by the key of
// their last block.
type lookaheads struct {
	behind  map[radix.Key]*goesOn
	records int
}

// noteAhead keeps what an op tells of facts that are linked. Others count.
func (b *blocks) noteAhead(op *crdt.Op) {
	b.x.held += op.Handles.Len()
	for i := range op.Handles.Len() {
		h := b.effective(op.Handles.At(i), op.Space)
		f, ok := b.x.tree.Get(b.holder, h)
		if !ok {
			continue
		}
		b.forgetAhead(f.Key, h)
		if b.behind == nil {
			b.behind = map[radix.Key]*goesOn{}
		}
		b.behind[f.Key] = &goesOn{h, uint32(op.Hashes.At(i)), f.Blocks, b.behind[f.Key]}
		if b.records++; b.records == 1 {
			b.mark()
		}
	}
}

// forgetAhead drops what is kept of a page that is no fact at key any more.
func (b *blocks) forgetAhead(key radix.Key, handle uint64) {
	first := b.behind[key]
	for at := &first; *at != nil; at = &(*at).other {
		if (*at).handle != handle {
			continue
		}
		*at = (*at).other
		if first == nil {
			delete(b.behind, key)
		} else {
			b.behind[key] = first
		}
		if b.records--; b.records == 0 {
			b.mark()
		}
		return
	}
}

// usable is how many of a prompt's first n blocks, which are all held, can be
// reused before the token that stands behind them: n, or a page less.
func (b *blocks) usable(keys []radix.Key, n int, next uint32) int {
	b.x.held++
	first, known := b.behind[keys[n-1]], 0
	after := b.x.hasher.After(next)
	for g := first; g != nil; g = g.other {
		if g.after == after {
			return n
		}
		known++
	}
	if _, pages, _ := b.x.tree.Covering(b.holder, keys[n-1]); known == 0 || known < pages {
		return n
	}
	return n - min(n, first.blocks)
}
