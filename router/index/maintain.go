package index

import (
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Maintain does a bounded piece of the work that was put off: at most
// maxFacts facts of dropped incarnations, expired predictions and doubts.
// more reports that there is more to do at once.
func (x *Index) Maintain(nowMs int64, maxFacts int) (more bool) {
	dropping := false
	x.locked(func() {
		dropping = len(x.dropping) > 0
		x.clearSome(maxFacts)
		more = len(x.dropping) > 0
	})
	if dropping {
		return more
	}
	x.locked(func() {
		x.measure(nowMs)
		for _, s := range x.streams {
			s.Tick(nowMs)
			if b := blocksOf(s); b != nil && b.void != 0 && !b.counting && nowMs-b.lostAt >= suspectMs {
				b.trust()
			}
		}
	})
	x.expire(nowMs)
	return false
}

// expire ends predictions, those of one moment at a time: they come one
// prompt a request, so a hold is a few prompts long.
func (x *Index) expire(nowMs int64) {
	for more := true; more; {
		x.locked(func() { more = x.guess.expire(nowMs) })
	}
}

// Stats is the size of the index.
type Stats struct {
	Facts       int // confirmed, all incarnations
	Keys        int
	Bytes       int64 // both trees
	Predicted   int
	Streams     int
	Places      int // replicas that something is remembered of
	Width       int // words of 64 holders that a match looks at, of both trees
	Holders     int // incarnations in the tree: shown, loading, or waiting to be cleared
	Quarantined int
	Full        int              // streams left alone because they did not fit
	GivenUp     map[Bound]uint64 // streams that did not fit, since the start
	Used        int64            // bytes, as Memory bounds them
	Memory      int64            // bytes that may be used; 0 any number
	Above       int              // bytes of slots above holes
	Suspect     int              // facts older than a lost batch
	Loose       int              // facts whose place in a prompt is not known
	Untold      uint64           // own predictions that were not told at once, as too many waited; the digests bring them
}

// Stats adds up the index. O(streams).
func (x *Index) Stats() (s Stats) {
	x.locked(func() {
		t, g := x.tree.Stats(), x.guesses.Stats()
		s = Stats{Keys: t.Keys, Holders: t.Holders, Width: x.tree.Width() + x.guesses.Width(), Bytes: t.Bytes + g.Bytes, Predicted: g.Facts, Streams: len(x.streams), Untold: x.guess.lost}
		for _, st := range x.streams {
			if b := blocksOf(st); b != nil {
				s.Facts += int(b.sum.Count)
				s.Suspect += b.suspects
				s.Loose += len(b.list)
				for _, side := range b.sides {
					s.Loose -= side.facts
				}
				s.Bytes += b.smallPages.bytes()
			}
			if st.Quarantined() {
				s.Quarantined++
			}
		}
		s.Full, s.GivenUp, s.Used, s.Memory, s.Above = len(x.bound.full), maps.Clone(x.bound.givenUp), x.used(), x.bound.memory, x.bound.above
		x.refsMu.RLock()
		s.Places = len(x.refs)
		x.refsMu.RUnlock()
	})
	return s
}

// Top lists the n most shared prefixes with the replicas that hold them. The
// tree is walked in steps, about 1 ms a million facts in all.
func (x *Index) Top(n int) (out []TopPrefix) {
	names := map[radix.Holder]crdt.StreamID{}
	x.refsMu.RLock()
	for id, r := range x.refs {
		if h := r.confirmed.Load(); h != 0 {
			names[radix.Holder(h-1)] = id
		}
	}
	x.refsMu.RUnlock()
	var ranking *radix.Ranking
	x.locked(func() { ranking = x.tree.Rank(n) })
	for done := false; !done; {
		x.locked(func() {
			x.held += holdFacts
			done = ranking.Step(holdFacts)
		})
	}
	var found []radix.Prefix
	for done := false; !done; {
		x.locked(func() {
			x.held += lookKeys
			found, done = ranking.Describe(lookKeys)
		})
	}
	for _, p := range found {
		t := TopPrefix{Key: p.Key, Head: p.Head, Parent: p.Parent, Under: p.Under, Depth: p.Depth, Blocks: p.Blocks}
		for _, h := range p.Holders {
			if id, ok := names[h]; ok {
				t.Holders = append(t.Holders, id)
			}
		}
		if len(t.Holders) > 0 {
			slices.Sort(t.Holders)
			out = append(out, t)
		}
	}
	return out
}
