package load

import (
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

// Entry is what the table holds of one replica, found once and then read by
// every decision without a look-up. Guarded by the table's mutex.
type Entry struct {
	id     crdt.StreamID
	gone   bool        // it was forgotten: the replica has another entry now
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

	handsUntil int64 // ms; it hands tokens to other replicas until then
}

// youngDispatch is an own dispatch that others may not have heard of.
type youngDispatch struct {
	at      int64 // ms
	prefill float64
}

// Entry is the replica's entry, made on first use. It may be kept: one that was
// forgotten meanwhile is replaced where it is read.
func (t *Table) Entry(id crdt.StreamID) *Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entryLocked(id)
}

func (t *Table) entryLocked(id crdt.StreamID) *Entry {
	e := t.bareLocked(id)
	if e.total == nil {
		e.total = t.loads.Hold(id)
		e.rates = policy.NewCalibrator(policy.Rates{})
	}
	return e
}

// bareLocked is the entry for what others say of a replica.
func (t *Table) bareLocked(id crdt.StreamID) *Entry {
	e := t.entries[id]
	if e == nil {
		e = &Entry{id: id}
		t.entries[id] = e
	}
	return e
}

// lookLocked is the replica's entry for reading, an empty one if it has none.
func (t *Table) lookLocked(id crdt.StreamID) *Entry {
	if e := t.entries[id]; e != nil {
		return e
	}
	return &Entry{}
}

// Snapshot completes candidates with what is known of their replicas' load, all
// at one moment; entries[i] is that of cands[i]. Own dispatches of the last
// ageMs are young: others may not have heard of them. Rates are blended over the
// candidates, which serve one model: a replica is taken for like the others
// until it clearly differs. O(candidates), no look-up.
func (t *Table) Snapshot(cands []policy.Candidate, entries []*Entry, nowMs int64, ageMs float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blendLocked(entries, nowMs)
	rates := t.blended[:len(entries)]
	cands = cands[:len(entries)]
	for i, e := range entries {
		if e.gone {
			e = t.entryLocked(e.id)
		}
		e.fill(&cands[i], nowMs, t.Wall(nowMs), ageMs)
		cands[i].Rates = rates[i]
	}
}

func (e *Entry) fill(c *policy.Candidate, nowMs, wallMs int64, ageMs float64) {
	sum := e.total // field by field: a copy of it would cost as much as the rest
	c.Waiting, c.Prefill, c.Tokens = int(sum.Waiting()), sum.Prefill(), sum.Tokens()
	c.Streams, c.Blocks, c.FirstToken = int(sum.Streams()), sum.Blocks(), sum.FirstToken()
	for i := len(e.young) - 1; i >= 0 && float64(nowMs-e.young[i].at) < ageMs; i-- {
		c.YoungCount++
		c.YoungPrefill += e.young[i].prefill
	}
	c.Running, c.Queued, c.KVUse = -1, -1, -1
	if s := &e.scrape; e.told && Fresh(s, wallMs, ScrapeFreshMs) {
		c.Running, c.Queued, c.KVUse, c.Capacity = int(s.Running), int(s.Waiting), float64(s.KVUse), s.Capacity
	}
	if e.ruled {
		c.Weight *= e.intent.Weight
		if e.intent.Drain {
			c.Weight = 0
		}
	}
}

// blendMs is how long blended rates are good: they move by a few percent with
// a first token, and blending 64 of them costs more than the decision.
const blendMs = 50

// blendLocked blends what was learned of these replicas, unless it has just
// been done.
func (t *Table) blendLocked(entries []*Entry, nowMs int64) {
	if age := nowMs - t.blendedAt; age >= 0 && age < blendMs && slices.Equal(entries, t.blendedOf) {
		return
	}
	t.learned = t.learned[:0]
	for _, e := range entries {
		t.learned = append(t.learned, e.rates)
	}
	t.blended = policy.Blend(t.blended[:0], t.learned)
	t.blendedOf, t.blendedAt = append(t.blendedOf[:0], entries...), nowMs
}

// ScrapeFreshMs is how long a scrape speaks for its replica.
const ScrapeFreshMs = 2000

// Fresh reports whether a scrape was taken within so many ms of now, by the wall
// clock of the owner that took it. One from further ahead than that is of a
// clock that was set since: nobody knows how old it is.
func Fresh(s *crdt.Scrape, wallMs, within int64) bool {
	age := wallMs - int64(s.Version)
	return -within < age && age < within
}

// Believe sets the rates that a replica is taken to have until its answers say
// otherwise. What was learned of it is forgotten.
func (t *Table) Believe(id crdt.StreamID, rates policy.Rates) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entryLocked(id).rates = policy.NewCalibrator(rates)
	t.blendedOf = t.blendedOf[:0]
}

// Held appends the replicas that the table holds anything of: scrapes, an
// operator's word, or anybody's load. Each may be told twice.
func (t *Table) Held(dst []crdt.StreamID) []crdt.StreamID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loads.Replicas(slices.AppendSeq(dst, maps.Keys(t.entries)))
}

// ForgetReplica drops all that is known of a replica, what operators said of it
// too: kept, the words on replicas that came and went would ride on every
// summary for ever.
func (t *Table) ForgetReplica(id crdt.StreamID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loads.Forget(id)
	if old := t.entries[id]; old != nil {
		old.gone = true
		delete(t.entries, id)
	}
}
