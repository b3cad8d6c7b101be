package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// Chain is a prompt as the index needs it: its namespace and block keys.
type Chain struct {
	Root radix.Key
	Keys []radix.Key
	// Hashes, one per key, are only needed by Evidence; without them no orphans
	// are linked.
	Hashes []radix.TokenHash
	Exact  bool // keys of token ids, comparable with events
	// Next is the token behind each block; the last one may have none. Only Match
	// needs it.
	Next []uint32
}

// How long a prediction counts, ms.
const (
	dispatchTTL = 5_000          // to a replica whose events will confirm it
	lastingTTL  = 10 * 60 * 1000 // to a replica without events, and evidence
)

// maxOwn bounds the own predictions waiting for the mesh; the oldest go first.
const maxOwn = 4096

// guesses mirrors the prediction lattice into a tree of its own: a visible key
// is a fact whose handle is the key. Guarded by the Index's mutex.
type guesses struct {
	x       *Index
	lattice *crdt.Predictions
	holders map[crdt.StreamID]radix.Holder
	own     []crdt.Prediction // waiting for the mesh
	lost    uint64            // own ones not told because too many waited; the sums bring them
	next    int64             // ms of the next expiry; 0 none
	keys    []radix.Key       // scratch
}

func newGuesses(x *Index, keys int) *guesses {
	g := &guesses{x: x, holders: map[crdt.StreamID]radix.Holder{}}
	g.lattice = crdt.NewPredictions(crdt.PredictionsConfig{Keys: keys, Sink: g})
	return g
}

// Show mirrors keys that became visible.
func (g *guesses) Show(space crdt.PredictionSpace, parent uint64, keys []uint64, timeMs int64) {
	h, ok := g.holders[space.Replica]
	if !ok {
		h = g.x.guesses.AddHolder()
		g.holders[space.Replica] = h
		g.x.Ref(space.Replica).predicted.Store(uint32(h) + 1)
	}
	g.keys = g.keys[:0]
	for _, k := range keys {
		g.keys = append(g.keys, radix.Key(k))
	}
	meta := radix.Meta(crdt.NewMeta(uint64(timeMs)&(1<<40-1), 1, 0, 0))
	g.x.guesses.Store(h, radix.Key(parent), 1, g.keys, keys, func(radix.Fact) radix.Meta { return meta })
}

// Hide mirrors keys that became invisible.
func (g *guesses) Hide(space crdt.PredictionSpace, keys []uint64) {
	if h, ok := g.holders[space.Replica]; ok {
		g.x.guesses.Remove(h, keys, func(radix.Fact) radix.Meta { return 0 })
	}
}

// dropLargest forgets the predictions of the space that holds most; false if
// there are none.
func (g *guesses) dropLargest() bool { return g.lattice.DropLargest() }

// free gives a replica's holder back if nothing is predicted there.
func (g *guesses) free(id crdt.StreamID) bool {
	h, ok := g.holders[id]
	if !ok {
		return true
	}
	if g.x.guesses.Count(h) > 0 {
		return false
	}
	g.x.Ref(id).predicted.Store(0)
	g.x.guesses.FreeHolder(h)
	delete(g.holders, id)
	return true
}

// ClockSet says how far the wall clock is ahead of the times that the Index is
// given from now on, ms; 0 before. Predictions, which peers compare, are in its
// time; how long something lasts here is not.
func (x *Index) ClockSet(aheadMs int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ahead = aheadMs
}

// Predicting says whether dispatches and evidence are booked from now on; they
// are before the first call. Not so while the wall clock is off: what the others
// reject would be believed here alone.
func (x *Index) Predicting(on bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mute = !on
}

func (g *guesses) join(ps []crdt.Prediction, nowMs int64) (rejected int) {
	rejected = g.lattice.Join(ps, nowMs+g.x.ahead)
	if len(ps) > rejected && g.next == 0 {
		g.next = 1 // the lattice tells the time
	}
	return rejected
}

// expire ends what is due at the earliest moment; more if there is another.
func (g *guesses) expire(nowMs int64) (more bool) {
	wall := nowMs + g.x.ahead
	if g.next == 0 || wall < g.next {
		return false
	}
	g.next = g.lattice.Expire(g.next)
	return g.next != 0 && g.next <= wall
}

// Predict books a dispatch: the replica will soon hold the prompt's blocks.
func (x *Index) Predict(id crdt.StreamID, c *Chain, nowMs int64) {
	ttl := int64(lastingTTL)
	if c.Exact && x.Ref(id).EventFed(nowMs) {
		ttl = dispatchTTL
	}
	x.guessed(id, c, len(c.Keys), nowMs, ttl)
}

// Unpredict takes a dispatch back that computed nothing: what it was to bring
// beyond the first n blocks, which were believed there before it. atMs is the
// time that Predict was given. What was dispatched in a later millisecond stays,
// whatever the order in which peers hear of it.
func (x *Index) Unpredict(id crdt.StreamID, c *Chain, n int, atMs int64) {
	if n >= len(c.Keys) {
		return
	}
	parent := c.Root
	if n > 0 {
		parent = c.Keys[n-1]
	}
	x.book(crdt.Prediction{
		Space: crdt.PredictionSpace{Replica: id, Root: uint64(c.Root)}, TTL: lastingTTL, Absent: true,
		Parent: uint64(parent), Keys: rawKeys(c.Keys[n:]),
	}, atMs)
}

func rawKeys(keys []radix.Key) []uint64 {
	out := make([]uint64, len(keys))
	for i, k := range keys {
		out[i] = uint64(k)
	}
	return out
}

// Evidence books an answer that reported n cached blocks. A replica that is
// fed by events tells its cache itself: there evidence ends doubt, links
// orphans, and counts only where it reaches deeper than the events do, as it
// does while their root is missing. An answer that found less than was
// believed needs no entry: the request itself has just brought those blocks
// in. atMs is the time of the dispatch, confirmed what events vouched for then.
func (x *Index) Evidence(id crdt.StreamID, c *Chain, n, confirmed int, atMs int64) {
	n = min(n, len(c.Keys))
	if c.Exact && x.Ref(id).EventFed(atMs) {
		x.settle(id, c, n, confirmed, atMs)
		if n <= confirmed {
			return
		}
	}
	x.guessed(id, c, n, atMs, lastingTTL)
}

// settle tells a stream's store what an answer proved.
func (x *Index) settle(id crdt.StreamID, c *Chain, n, confirmed int, atMs int64) {
	x.on(id, atMs, func(s *crdt.Stream) {
		b := blocksOf(s)
		if b == nil || n < 0 {
			return
		}
		if b.void != 0 && atMs >= b.lostAt {
			b.confirm(c.Keys[:n])
		}
		if confirmed < len(c.Keys) {
			b.tie(c, min(confirmed, n), n)
		}
	})
}

func (x *Index) guessed(id crdt.StreamID, c *Chain, n int, nowMs, ttl int64) {
	if n <= 0 {
		return
	}
	x.book(crdt.Prediction{
		Space: crdt.PredictionSpace{Replica: id, Root: uint64(c.Root)}, TTL: ttl, Parent: uint64(c.Root), Keys: rawKeys(c.Keys[:n]),
	}, nowMs)
}

// book joins a prediction of this peer's own, made at nowMs, and has the mesh
// told of it.
func (x *Index) book(p crdt.Prediction, nowMs int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mute {
		return
	}
	if !p.Absent {
		x.tellUse(p.Space.Replica, p.Keys, nowMs)
	}
	g := x.guess
	p.Time = nowMs + x.ahead
	g.join([]crdt.Prediction{p}, nowMs)
	if len(g.own) == maxOwn {
		clear(g.own[:1])
		g.own = g.own[1:]
		g.lost++
	}
	g.own = append(g.own, p)
}

// OwnPredictions moves at most max waiting predictions of this peer to dst.
func (x *Index) OwnPredictions(dst []crdt.Prediction, max int) []crdt.Prediction {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.guess
	n := min(max, len(g.own))
	dst = append(dst, g.own[:n]...)
	clear(g.own[:n])
	g.own = g.own[n:]
	return dst
}

// JoinPredictions joins another peer's predictions; rejected counts those
// whose time lies more than 2 s ahead.
func (x *Index) JoinPredictions(ps []crdt.Prediction, nowMs int64) (rejected int) {
	for len(ps) > 0 {
		n, keys := 0, 0
		for n < len(ps) && (n == 0 || keys+len(ps[n].Keys) <= holdFacts) {
			keys += len(ps[n].Keys)
			n++
		}
		x.locked(func() {
			x.held += keys
			rejected += x.guess.join(ps[:n], nowMs)
			for i := range ps[:n] {
				x.tellUse(ps[i].Space.Replica, ps[i].Keys, ps[i].Time-x.ahead)
			}
		})
		ps = ps[n:]
	}
	return rejected
}

// PredictionSums returns one XOR per space and bucket, for anti-entropy.
func (x *Index) PredictionSums(nowMs int64) []crdt.PredictionSum {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.guess.lattice.Sums(nowMs + x.ahead)
}

// PredictionsOf returns all predictions of one space and bucket. They are
// gathered in steps: one that changes meanwhile may be told twice or left to
// the next round.
func (x *Index) PredictionsOf(space crdt.PredictionSpace, bucket int64) (out []crdt.Prediction) {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		x.locked(func() {
			x.held += holdFacts
			out, cursor = x.guess.lattice.AppendOf(out, space, bucket, cursor, holdFacts)
		})
	}
	crdt.SortPredictions(out)
	return out
}
