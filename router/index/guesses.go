package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Chain is a prompt as the index needs it: its namespace and block keys.
type Chain struct {
	Root  radix.Key
	Keys  []radix.Key
	Exact bool // keys of token ids, comparable with events
}

// How long a prediction counts, ms.
const (
	dispatchTTL = 5_000          // to a replica whose events will confirm it
	lastingTTL  = 10 * 60 * 1000 // to a replica without events, and evidence
)

// maxOwn bounds the own predictions waiting for the mesh; the oldest go first.
const maxOwn = 4096

// guesses mirrors the prediction lattice into a tree of its own.
type guesses struct {
	x       *Index
	holders map[crdt.StreamID]radix.Holder
	expiry  map[crdt.StreamID]map[uint64]int64 // key -> ms
	own     []crdt.Prediction
}

func newGuesses(x *Index, _ int) *guesses {
	return &guesses{x: x, holders: map[crdt.StreamID]radix.Holder{}, expiry: map[crdt.StreamID]map[uint64]int64{}}
}

func (g *guesses) join(p *crdt.Prediction, nowMs int64) {
	id := p.Space.Replica
	h, ok := g.holders[id]
	if !ok {
		h = g.x.guesses.AddHolder()
		g.holders[id] = h
		g.expiry[id] = map[uint64]int64{}
		g.x.Ref(id).predicted.Store(uint32(h) + 1)
	}
	until := p.Time + p.TTL
	if until <= nowMs || p.Absent {
		return
	}
	keys := make([]radix.Key, len(p.Keys))
	for i, k := range p.Keys {
		keys[i] = radix.Key(k)
		g.expiry[id][k] = max(g.expiry[id][k], until)
	}
	g.x.guesses.Store(h, radix.Key(p.Parent), 1, keys, p.Keys, func(radix.Fact) radix.Meta { return 1 })
}

func (g *guesses) expire(nowMs int64, limit int) (more bool) {
	n := 0
	for id, keys := range g.expiry {
		var gone []uint64
		for k, until := range keys {
			if until <= nowMs {
				gone = append(gone, k)
				delete(keys, k)
			}
		}
		n += len(gone)
		if len(gone) > 0 {
			g.x.guesses.Remove(g.holders[id], gone, func(radix.Fact) radix.Meta { return 0 })
		}
	}
	return n > limit
}

// Predict books a dispatch: the replica will soon hold the prompt's blocks.
func (x *Index) Predict(id crdt.StreamID, c *Chain, nowMs int64) {
	ttl := int64(lastingTTL)
	if c.Exact && x.Ref(id).EventFed(nowMs) {
		ttl = dispatchTTL
	}
	x.guessed(id, c, len(c.Keys), nowMs, ttl)
}

// Evidence books an answer that reported n cached blocks.
func (x *Index) Evidence(id crdt.StreamID, c *Chain, n int, atMs int64) {
	if c.Exact && x.Ref(id).EventFed(atMs) {
		return // events tell it exactly
	}
	x.guessed(id, c, min(n, len(c.Keys)), atMs, lastingTTL)
}

func (x *Index) guessed(id crdt.StreamID, c *Chain, n int, nowMs, ttl int64) {
	if n <= 0 {
		return
	}
	p := crdt.Prediction{Space: crdt.PredictionSpace{Replica: id, Root: uint64(c.Root)}, Time: nowMs, TTL: ttl, Parent: uint64(c.Root)}
	for _, k := range c.Keys[:n] {
		p.Keys = append(p.Keys, uint64(k))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.guess
	g.join(&p, nowMs)
	if len(g.own) == maxOwn {
		g.own = append(g.own[:0], g.own[1:]...)
	}
	g.own = append(g.own, p)
}

// OwnPredictions moves at most max waiting predictions of this peer to dst.
func (x *Index) OwnPredictions(dst []crdt.Prediction, max int) []crdt.Prediction {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := min(max, len(x.guess.own))
	dst = append(dst, x.guess.own[:n]...)
	x.guess.own = append(x.guess.own[:0], x.guess.own[n:]...)
	return dst
}

// JoinPredictions joins another peer's predictions.
func (x *Index) JoinPredictions(ps []crdt.Prediction, nowMs int64) (rejected int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range ps {
		if ps[i].Time > nowMs+2000 {
			rejected++
			continue
		}
		x.guess.join(&ps[i], nowMs)
	}
	return rejected
}

// PredictionSums returns one XOR per space and bucket.
func (x *Index) PredictionSums(int64) []crdt.PredictionSum { return nil }

// PredictionsOf returns all predictions of one space and bucket.
func (x *Index) PredictionsOf(crdt.PredictionSpace, int64) []crdt.Prediction { return nil }
