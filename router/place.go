package router

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

// place is what the board holds of one replica, found once and then read by
// every decision without a look-up. Guarded by the board's mutex.
type place struct {
	id     crdt.StreamID
	gone   bool        // it was forgotten: the replica's place is another one
	total  *crdt.Total // load over all peers; nil: only scrapes or operators spoke of it
	young  []youngDispatch
	told   bool // scrape was told
	ruled  bool // intent was told
	scrape crdt.Scrape
	intent crdt.Intent

	// This peer's part.
	reg    crdt.Load
	rates  policy.Calibrator
	prompt uint64 // tokens of answers through this peer
	cached uint64
}

// youngDispatch is an own dispatch that others may not have heard of.
type youngDispatch struct {
	at      int64 // ms
	prefill float64
	tokens  int64
}

// place is the replica's place, made on first use. It stays good: one that was
// forgotten meanwhile is replaced where it is read.
func (b *board) place(id crdt.StreamID) *place {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.placeLocked(id)
}

func (b *board) placeLocked(id crdt.StreamID) *place {
	pl := b.bareLocked(id)
	if pl.total == nil {
		pl.total = b.loads.Hold(id)
		pl.rates = policy.NewCalibrator(policy.Rates{})
	}
	return pl
}

// bareLocked is the place for what others say of a replica.
func (b *board) bareLocked(id crdt.StreamID) *place {
	pl := b.places[id]
	if pl == nil {
		pl = &place{id: id}
		b.places[id] = pl
	}
	return pl
}

// lookLocked is the replica's place for reading, an empty one if it has none.
func (b *board) lookLocked(id crdt.StreamID) *place {
	if pl := b.places[id]; pl != nil {
		return pl
	}
	return &place{}
}

// fill completes candidates with what is known of their replicas' load, all at
// one moment; places[i] is that of cands[i]. Rates are blended over the
// candidates, which serve one model: a replica is taken for like the others
// until it clearly differs. O(candidates), no look-up.
func (b *board) fill(cands []policy.Candidate, places []*place, nowMs int64, ageMs float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blendLocked(places, nowMs)
	rates := b.blended[:len(places)]
	cands = cands[:len(places)]
	for i, pl := range places {
		if pl.gone {
			pl = b.placeLocked(pl.id)
		}
		pl.fill(&cands[i], nowMs, b.wall(nowMs), ageMs)
		cands[i].Rates = rates[i]
	}
}

func (pl *place) fill(c *policy.Candidate, nowMs, wallMs int64, ageMs float64) {
	sum := pl.total // field by field: a copy of it would cost as much as the rest
	c.Waiting, c.Prefill, c.Tokens = int(sum.Waiting()), sum.Prefill(), sum.Tokens()
	c.Streams, c.Blocks, c.FirstToken = int(sum.Streams()), sum.Blocks(), sum.FirstToken()
	for i := len(pl.young) - 1; i >= 0 && float64(nowMs-pl.young[i].at) < ageMs; i-- {
		c.YoungCount++
		c.YoungPrefill += pl.young[i].prefill
		c.YoungTokens += pl.young[i].tokens
	}
	c.Running, c.Queued, c.KVUse = -1, -1, -1
	if s := &pl.scrape; pl.told && fresh(s, wallMs, scrapeFreshMs) {
		c.Running, c.Queued, c.KVUse, c.Capacity = int(s.Running), int(s.Waiting), float64(s.KVUse), s.Capacity
	}
	if pl.ruled {
		c.Weight *= pl.intent.Weight
		if pl.intent.Drain {
			c.Weight = 0
		}
	}
}

// blendMs is how long blended rates are good: they move by a few percent with
// a first token, and blending 64 of them costs more than the decision.
const blendMs = 50

// blendLocked blends what was learned of these replicas, unless it has just
// been done.
func (b *board) blendLocked(places []*place, nowMs int64) {
	if age := nowMs - b.blendedAt; age >= 0 && age < blendMs && slices.Equal(places, b.blendedOf) {
		return
	}
	b.learned = b.learned[:0]
	for _, pl := range places {
		b.learned = append(b.learned, pl.rates)
	}
	b.blended = policy.Blend(b.blended[:0], b.learned)
	b.blendedOf, b.blendedAt = append(b.blendedOf[:0], places...), nowMs
}

// scrapeFreshMs is how long a scrape speaks for its replica.
const scrapeFreshMs = 2000

// fresh reports whether a scrape was taken within so many ms of now, by the wall
// clock of the owner that took it. One from further ahead than that is of a
// clock that was set since: nobody knows how old it is.
func fresh(s *crdt.Scrape, wallMs, within int64) bool {
	age := wallMs - int64(s.Version)
	return -within < age && age < within
}

// knows reports whether the board holds anything of a replica's load.
func (b *board) knows(id crdt.StreamID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	pl := b.places[id]
	return pl != nil && (pl.total != nil || pl.told)
}

// forget drops a replica's load. What operators said of it stays.
func (b *board) forget(id crdt.StreamID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loads.Forget(id)
	old := b.places[id]
	if old == nil {
		return
	}
	old.gone = true
	delete(b.places, id)
	if old.ruled {
		pl := b.bareLocked(id)
		pl.ruled, pl.intent = true, old.intent
	}
}
