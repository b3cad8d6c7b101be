package router

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

// firstMeanMs is taken for the time of a request before any was seen.
const firstMeanMs = 5000

// maxYoung bounds the own recent dispatches remembered per replica.
const maxYoung = 64

// board is the load side of the replicated state: this peer's own requests,
// the registers of all peers, scrapes, vitals and operator intent. It is the
// part of gossip.State that is not the index.
type board struct {
	self  crdt.PeerID
	clock clock
	ahead atomic.Int64 // ms: the wall clock's lead over clock

	mu       sync.Mutex // guards below; never held while calling out
	loads    *crdt.Loads
	places   map[crdt.StreamID]*place
	vitals   map[crdt.PeerID]crdt.Vitals
	others   float64 // requests a second of the other peers, by their vitals
	meanS    float64 // mean prefill seconds of recent dispatches
	lambda   float64 // own requests a second, exponential mean
	lastSent int64   // ms of the last dispatch
	meanMs   float64 // time from dispatch to end of recent requests

	learned   []policy.Calibrator // scratch
	blended   []policy.Rates      // of blendedOf
	blendedOf []*place
	blendedAt int64 // ms
}

func newBoard(self crdt.PeerID, c clock) *board {
	return &board{
		self: self, clock: c, loads: crdt.NewLoads(self), places: map[crdt.StreamID]*place{},
		meanMs: firstMeanMs, vitals: map[crdt.PeerID]crdt.Vitals{},
	}
}

// ClockSet says how far the wall clock is ahead of the times that the other
// methods are given from now on, ms.
func (b *board) ClockSet(aheadMs int64) { b.ahead.Store(aheadMs) }

// wall is the wall clock's time, which peers compare, at a time of this peer's
// clock; both ms.
func (b *board) wall(nowMs int64) int64 { return nowMs + b.ahead.Load() }

// publishLocked writes the own register of a replica into the table.
func (b *board) publishLocked(pl *place) {
	pl.reg.Version++
	b.loads.SetOwn(pl.id, pl.reg)
}

// share is what one request adds to its replica's load.
type share struct {
	id      crdt.StreamID
	prefill float64 // seconds
	tokens  int64   // uncached
	blocks  int64   // grid blocks while decoding
	started bool    // first token seen
	over    bool
}

// fleetRate estimates requests a second of the whole fleet and the mean
// prefill seconds of recent requests.
func (b *board) fleetRate() (lambda, meanS float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lambda + b.others, b.meanS
}

// rateWindow is the memory of the own request rate, seconds.
const rateWindow = 5.0

// ownRate is this peer's requests a second, lately.
func (b *board) ownRate(nowMs int64) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lambda * rateWindow / (rateWindow + float64(max(0, nowMs-b.lastSent))/1000)
}

// dispatch counts a request in.
func (b *board) dispatch(s *share, nowMs int64) { b.dispatchBelow(s, nil, nowMs) }

// dispatchBelow counts a request in unless its replica has become full since
// it was looked at; nil: in any case.
func (b *board) dispatchBelow(s *share, below *bar, nowMs int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if below != nil && b.roomLocked(b.placeLocked(s.id), *below, nowMs) <= 0 {
		return false
	}
	b.joinLocked(s, nowMs)
	b.meanS += (s.prefill - b.meanS) / 64
	if gap := float64(max(0, nowMs-b.lastSent)) / 1000; b.lastSent != 0 {
		b.lambda = b.lambda*rateWindow/(rateWindow+gap) + 1/(rateWindow+gap)
	}
	b.lastSent = nowMs
	return true
}

// join counts in the second replica of a request that dispatch has counted.
func (b *board) join(s *share, nowMs int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.joinLocked(s, nowMs)
}

func (b *board) joinLocked(s *share, nowMs int64) {
	pl := b.placeLocked(s.id)
	if pl.total.Waiting() == 0 && pl.total.Streams() == 0 {
		pl.reg.FirstToken = b.wall(nowMs)
	}
	pl.reg.Waiting++
	pl.reg.Prefill += s.prefill
	pl.reg.Tokens += s.tokens
	if len(pl.young) == maxYoung {
		pl.young = append(pl.young[:0], pl.young[1:]...)
	}
	pl.young = append(pl.young, youngDispatch{nowMs, s.prefill, s.tokens})
	b.publishLocked(pl)
}

// raise gives a request that has no first token another size.
func (b *board) raise(s *share, prefill float64, tokens int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.started || s.over {
		return
	}
	pl := b.placeLocked(s.id)
	pl.reg.Prefill += prefill - s.prefill
	pl.reg.Tokens += tokens - s.tokens
	s.prefill, s.tokens = prefill, tokens
	b.publishLocked(pl)
}

// firstToken moves a request from waiting to decoding. Only the first call
// counts.
func (b *board) firstToken(s *share, nowMs int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.started || s.over {
		return
	}
	s.started = true
	pl := b.placeLocked(s.id)
	b.leaveQueueLocked(pl, s)
	pl.reg.Streams++
	pl.reg.Blocks += s.blocks
	pl.reg.FirstToken = b.wall(nowMs)
	b.publishLocked(pl)
}

func (b *board) leaveQueueLocked(pl *place, s *share) {
	pl.reg.Waiting--
	pl.reg.Prefill -= s.prefill
	pl.reg.Tokens -= s.tokens
	if pl.reg.Waiting == 0 {
		pl.reg.Prefill, pl.reg.Tokens = 0, 0 // no drift of sums
	}
}

// done counts a request out. Only the first call counts (R1).
func (b *board) done(s *share, took time.Duration, promptTokens, cachedTokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	b.meanMs += (float64(took.Milliseconds()) - b.meanMs) / 64
	b.leaveLocked(s, promptTokens, cachedTokens)
}

// leave counts one of a request's two replicas out. Only the first call
// counts (R1).
func (b *board) leave(s *share, promptTokens, cachedTokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !s.over {
		s.over = true
		b.leaveLocked(s, promptTokens, cachedTokens)
	}
}

func (b *board) leaveLocked(s *share, promptTokens, cachedTokens int) {
	pl := b.placeLocked(s.id)
	if s.started {
		pl.reg.Streams--
		pl.reg.Blocks -= s.blocks
	} else {
		b.leaveQueueLocked(pl, s)
	}
	pl.prompt += uint64(promptTokens)
	pl.cached += uint64(cachedTokens)
	b.publishLocked(pl)
}

// learn feeds a first-token sample to the replica's rates.
func (b *board) learn(id crdt.StreamID, s policy.Sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pl := b.placeLocked(id)
	pl.rates = pl.rates.FirstToken(s)
}

// learnRun feeds a finished stream to the replica's rates.
func (b *board) learnRun(id crdt.StreamID, seconds float64, tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pl := b.placeLocked(id)
	pl.rates = pl.rates.Run(seconds, tokens)
}

// typicalRates blends what was learned of all replicas: prefill as where most
// was seen, the least decode step.
func (b *board) typicalRates() policy.Rates {
	b.mu.Lock()
	defer b.mu.Unlock()
	rates, samples := policy.Rates{}, -1
	step := math.MaxFloat64
	for _, pl := range b.places {
		if pl.total == nil {
			continue
		}
		if n := pl.rates.Samples(); n > samples {
			rates, samples = pl.rates.Rates(), n
		}
		step = min(step, pl.rates.Rates().T0)
	}
	if samples < 0 {
		return policy.DefaultRates()
	}
	rates.T0 = step
	return rates
}

// totals returns the load of one replica for status pages.
func (b *board) totals(id crdt.StreamID) (sum crdt.Load, prompt, cached uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pl := b.placeLocked(id)
	return pl.total.Load(), pl.prompt, pl.cached
}

// inflight is this peer's own requests at a replica.
func (b *board) inflight(id crdt.StreamID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	pl := b.placeLocked(id)
	return int(pl.reg.Waiting + pl.reg.Streams)
}
