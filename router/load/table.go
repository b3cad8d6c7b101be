package load

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

// firstMeanMs is taken for the time of a request before any was seen.
const firstMeanMs = 5000

// meanOver is of how many dispatches the mean prefill is taken: prompts differ
// by a factor of a hundred, and a mean over 64 made peers disagree.
const meanOver = 256

// maxYoung bounds the own recent dispatches remembered per replica.
const maxYoung = 64

// Table is one peer's load table: its own requests, the load registers of all
// peers, scrapes, vitals and operator intent. It is the part of gossip.State
// that is not the index. All methods may be called at once.
type Table struct {
	self  crdt.PeerID
	now   func() int64 // ms
	ahead atomic.Int64 // ms: the wall clock's lead over now

	mu      sync.Mutex // guards below; never held while calling out
	loads   *crdt.Loads
	entries map[crdt.StreamID]*Entry
	vitals  map[crdt.PeerID]crdt.Vitals
	meanS   float64 // mean prefill seconds of recent dispatches
	sent    int     // dispatches so far, as far as they count in meanS
	own     rate    // dispatches of this peer
	fleet   rate    // of all peers, as far as was heard
	recents recents // dispatches of late
	writes  uint64  // own registers written: the version of the last one
	heard   func(crdt.PeerID, *crdt.LoadEntry, crdt.Load)
	meanMs  float64 // time from dispatch to end of recent requests

	learned   []policy.Calibrator // scratch
	blended   []policy.Rates      // of blendedOf
	blendedOf []*Entry
	blendedAt int64 // ms
}

// New makes the empty table of a peer. now is the peer's clock, ms: by it the
// table knows how long other peers have been silent. It is called with the
// table locked, so it must not call back.
func New(self crdt.PeerID, now func() int64) *Table {
	t := &Table{
		self: self, now: now, loads: crdt.NewLoads(self), entries: map[crdt.StreamID]*Entry{},
		meanMs: firstMeanMs, vitals: map[crdt.PeerID]crdt.Vitals{},
	}
	t.heard = t.heardLocked // once: one made for every frame would be garbage
	return t
}

// ClockSet says how far the wall clock is ahead of the times that the other
// methods are given from now on, ms.
func (t *Table) ClockSet(aheadMs int64) { t.ahead.Store(aheadMs) }

// Wall is the wall clock's time, which peers compare, at a time of this peer's
// clock; both ms.
func (t *Table) Wall(nowMs int64) int64 { return nowMs + t.ahead.Load() }

// publishLocked writes the own register of a replica into the table. All
// registers share one counter of versions: one of a replica that was forgotten
// here and is listed again is newer than what other peers kept of it.
func (t *Table) publishLocked(e *Entry) {
	t.writes++
	e.reg.Version = t.writes
	t.loads.SetOwn(e.id, e.reg)
}

// Cost is what one request adds to its replica's load while it is in flight.
// Only its table changes it once it was dispatched.
type Cost struct {
	Replica crdt.StreamID
	Prefill float64 // seconds
	Tokens  int64   // uncached
	Blocks  int64   // grid blocks while decoding
	at      int64   // ms of its dispatch
	known   uint64  // dispatches that this peer had made or heard of then
	started bool    // first token seen
	over    bool
}

// FleetRate estimates requests a second of the whole fleet, from this peer's
// dispatches and the others' registers, and the mean prefill seconds of this
// peer's recent requests.
func (t *Table) FleetRate(nowMs int64) (lambda, meanS float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fleet.perSecond(nowMs), t.meanS
}

// OwnRate is this peer's requests a second, lately.
func (t *Table) OwnRate(nowMs int64) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own.perSecond(nowMs)
}

// Dispatch counts a request in.
func (t *Table) Dispatch(c *Cost, nowMs int64) { t.DispatchWithin(c, nil, nowMs) }

// DispatchWithin counts a request in, unless its replica has become full since
// it was looked at: then it changes nothing and returns false. Without a limit
// it always counts.
func (t *Table) DispatchWithin(c *Cost, limit *Limit, nowMs int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if limit != nil && t.headroomLocked(t.entryLocked(c.Replica), limit, nowMs) <= 0 {
		return false
	}
	t.addLocked(c, nowMs)
	t.sent = min(t.sent+1, meanOver)
	t.meanS += (c.Prefill - t.meanS) / float64(t.sent)
	t.own.add(1, nowMs)
	t.fleet.add(1, nowMs)
	return true
}

// Add counts in the second replica of a request that Dispatch has counted.
func (t *Table) Add(c *Cost, nowMs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addLocked(c, nowMs)
}

func (t *Table) addLocked(c *Cost, nowMs int64) {
	e := t.entryLocked(c.Replica)
	if e.total.Waiting() == 0 { // what waits from now on has not been worked on, whatever decodes
		e.reg.FirstToken = t.Wall(nowMs)
	}
	e.reg.Waiting++
	e.reg.Prefill += c.Prefill
	e.reg.Tokens += c.Tokens
	if len(e.young) == maxYoung {
		e.young = append(e.young[:0], e.young[1:]...)
	}
	t.recents.add(recent{t.self, c.Replica, c.Prefill, c.Tokens})
	c.at, c.known = nowMs, t.recents.count
	e.young = append(e.young, youngDispatch{nowMs, c.Prefill})
	t.publishLocked(e)
}

// Resize gives a request that has no first token another cost.
func (t *Table) Resize(c *Cost, prefill float64, tokens int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.started || c.over {
		return
	}
	e := t.entryLocked(c.Replica)
	e.reg.Prefill += prefill - c.Prefill
	e.reg.Tokens += tokens - c.Tokens
	c.Prefill, c.Tokens = prefill, tokens
	t.publishLocked(e)
}

// FirstToken moves a request from waiting to decoding. Only the first call
// counts.
func (t *Table) FirstToken(c *Cost, nowMs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.started || c.over {
		return
	}
	c.started = true
	e := t.entryLocked(c.Replica)
	t.leaveQueueLocked(e, c)
	e.reg.Streams++
	e.reg.Blocks += c.Blocks
	e.reg.FirstToken = t.Wall(nowMs)
	t.publishLocked(e)
}

func (t *Table) leaveQueueLocked(e *Entry, c *Cost) {
	if i := slices.IndexFunc(e.young, func(y youngDispatch) bool { return y.at == c.at }); i >= 0 {
		e.young = slices.Delete(e.young, i, i+1)
	}
	e.reg.Waiting--
	e.reg.Prefill -= c.Prefill
	e.reg.Tokens -= c.Tokens
	if e.reg.Waiting == 0 {
		e.reg.Prefill, e.reg.Tokens = 0, 0 // no drift of sums
	}
}

// Done counts a request out. Only the first call counts (L1).
func (t *Table) Done(c *Cost, took time.Duration, promptTokens, cachedTokens int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	t.meanMs += (float64(took.Milliseconds()) - t.meanMs) / 64
	t.removeLocked(c, promptTokens, cachedTokens)
}

// Remove counts one of a request's two replicas out. Only the first call
// counts (L1).
func (t *Table) Remove(c *Cost, promptTokens, cachedTokens int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !c.over {
		c.over = true
		t.removeLocked(c, promptTokens, cachedTokens)
	}
}

func (t *Table) removeLocked(c *Cost, promptTokens, cachedTokens int) {
	e := t.entryLocked(c.Replica)
	if c.started {
		e.reg.Streams--
		e.reg.Blocks -= c.Blocks
	} else {
		t.leaveQueueLocked(e, c)
	}
	e.prompt += uint64(promptTokens)
	e.cached += uint64(cachedTokens)
	t.publishLocked(e)
}

// Learn feeds a first-token sample to the replica's rates.
func (t *Table) Learn(id crdt.StreamID, s policy.Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(id)
	e.rates = e.rates.FirstToken(s)
}

// HandOut notes that a replica hands tokens to another one for so many seconds,
// after those that it was told to hand out before.
func (t *Table) HandOut(id crdt.StreamID, seconds float64, nowMs int64) {
	if !(seconds > 0 && seconds < maxHandOut) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(id)
	e.handsUntil = max(e.handsUntil, nowMs) + int64(1000*seconds)
}

// maxHandOut bounds what one fetch is believed to take, in seconds.
const maxHandOut = 60

// HandOuts appends for how many more seconds each replica hands out what this
// peer had fetched from it. O(entries).
func (t *Table) HandOuts(dst []float64, entries []*Entry, nowMs int64) []float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		dst = append(dst, float64(max(0, e.handsUntil-nowMs))/1000)
	}
	return dst
}

// LearnFetch feeds how a decision ended by which the replica was to fetch a part
// of the prompt: whether it got that, and if so, after how many seconds its first
// token was seen.
func (t *Table) LearnFetch(id crdt.StreamID, d *policy.Decision, seen float64, got bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(id)
	e.rates = e.rates.Fetch(d, seen, got)
	if !got {
		t.blendedOf = t.blendedOf[:0] // the next decision should know
	}
}

// LearnRun feeds a finished stream to the replica's rates.
func (t *Table) LearnRun(id crdt.StreamID, seconds float64, tokens int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(id)
	e.rates = e.rates.Run(seconds, tokens)
}

// TypicalRates blends what was learned of all replicas: prefill as where most
// was seen, the least decode step.
func (t *Table) TypicalRates() policy.Rates {
	t.mu.Lock()
	defer t.mu.Unlock()
	rates, samples := policy.Rates{}, -1
	step := math.MaxFloat64
	for _, e := range t.entries {
		if e.total == nil {
			continue
		}
		if n := e.rates.Samples(); n > samples {
			rates, samples = e.rates.Rates(), n
		}
		step = min(step, e.rates.Rates().T0)
	}
	if samples < 0 {
		return policy.DefaultRates()
	}
	rates.T0 = step
	return rates
}

// Totals returns the load of one replica for status pages.
func (t *Table) Totals(id crdt.StreamID) (sum crdt.Load, prompt, cached uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(id)
	return e.total.Load(), e.prompt, e.cached
}

// InFlight is this peer's own requests at a replica.
func (t *Table) InFlight(id crdt.StreamID) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(id)
	return int(e.reg.Waiting + e.reg.Streams)
}
