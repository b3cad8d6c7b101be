package router

import (
	"math"
	"slices"
	"sync"
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
	self crdt.PeerID

	mu       sync.Mutex // guards below; never held while calling out
	loads    *crdt.Loads
	own      map[crdt.StreamID]*ownLoad
	scrapes  map[crdt.StreamID]crdt.Scrape
	vitals   map[crdt.PeerID]crdt.Vitals
	intents  map[crdt.StreamID]crdt.Intent
	meanS    float64 // mean prefill seconds of recent dispatches
	lambda   float64 // own requests a second, exponential mean
	lastSent int64   // ms of the last dispatch
	meanMs   float64 // time from dispatch to end of recent requests

	learned   []policy.Calibrator // scratch
	blended   []policy.Rates      // of blendedOf
	blendedOf []crdt.StreamID
	blendedAt int64 // ms
}

// ownLoad is this peer's part of a replica's load.
type ownLoad struct {
	reg    crdt.Load
	young  []youngDispatch // newest last
	rates  policy.Calibrator
	prompt uint64 // tokens of answers through this peer
	cached uint64
}

type youngDispatch struct {
	at      int64 // ms
	prefill float64
	tokens  int64
}

func newBoard(self crdt.PeerID) *board {
	return &board{
		self: self, loads: crdt.NewLoads(self), own: map[crdt.StreamID]*ownLoad{},
		meanMs: firstMeanMs, scrapes: map[crdt.StreamID]crdt.Scrape{}, vitals: map[crdt.PeerID]crdt.Vitals{}, intents: map[crdt.StreamID]crdt.Intent{},
	}
}

func (b *board) ownLocked(id crdt.StreamID) *ownLoad {
	o := b.own[id]
	if o == nil {
		o = &ownLoad{rates: policy.NewCalibrator(policy.Rates{})}
		b.own[id] = o
	}
	return o
}

// publishLocked writes the own register of a replica into the table.
func (b *board) publishLocked(id crdt.StreamID, o *ownLoad) {
	o.reg.Version++
	b.loads.SetOwn(id, o.reg)
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

// fill completes candidates with what is known of their replicas' load, all at
// one moment; ids[i] is the stream of cands[i]. Rates are blended over the
// candidates, which serve one model: a replica is taken for like the others
// until it clearly differs. O(candidates).
func (b *board) fill(cands []policy.Candidate, ids []crdt.StreamID, nowMs int64, ageMs float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blendLocked(ids, nowMs)
	for i, id := range ids {
		b.fillLocked(&cands[i], id, nowMs, ageMs)
		cands[i].Rates = b.blended[i]
	}
}

// blendMs is how long blended rates are good: they move by a few percent with
// a first token, and blending 64 of them costs more than the decision.
const blendMs = 50

// blendLocked blends what was learned of these replicas, unless it has just
// been done.
func (b *board) blendLocked(ids []crdt.StreamID, nowMs int64) {
	if age := nowMs - b.blendedAt; age >= 0 && age < blendMs && slices.Equal(ids, b.blendedOf) {
		return
	}
	b.learned = b.learned[:0]
	for _, id := range ids {
		b.learned = append(b.learned, b.ownLocked(id).rates)
	}
	b.blended = policy.Blend(b.blended[:0], b.learned)
	b.blendedOf, b.blendedAt = append(b.blendedOf[:0], ids...), nowMs
}

func (b *board) fillLocked(c *policy.Candidate, id crdt.StreamID, nowMs int64, ageMs float64) {
	sum := b.loads.Sum(id)
	c.Waiting, c.Prefill, c.Tokens = int(sum.Waiting), sum.Prefill, sum.Tokens
	c.Streams, c.Blocks, c.FirstToken = int(sum.Streams), sum.Blocks, sum.FirstToken
	o := b.ownLocked(id)
	for i := len(o.young) - 1; i >= 0 && float64(nowMs-o.young[i].at) < ageMs; i-- {
		c.YoungCount++
		c.YoungPrefill += o.young[i].prefill
		c.YoungTokens += o.young[i].tokens
	}
	c.Running, c.Queued, c.KVUse = -1, -1, -1
	if s, ok := b.scrapes[id]; ok && nowMs-int64(s.Version) < scrapeFreshMs {
		c.Running, c.Queued, c.KVUse, c.Capacity = int(s.Running), int(s.Waiting), float64(s.KVUse), s.Capacity
	}
	if in, ok := b.intents[id]; ok {
		c.Weight *= in.Weight
		if in.Drain {
			c.Weight = 0
		}
	}
}

// scrapeFreshMs is how long a scrape speaks for its replica.
const scrapeFreshMs = 2000

// fleetRate estimates requests a second of the whole fleet and the mean
// prefill seconds of recent requests.
func (b *board) fleetRate() (lambda, meanS float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lambda = b.lambda
	for peer, v := range b.vitals {
		if peer != b.self {
			lambda += v.Rate
		}
	}
	return lambda, b.meanS
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
	if below != nil && b.roomLocked(s.id, *below, nowMs) <= 0 {
		return false
	}
	b.joinLocked(s, nowMs)
	b.meanS += (s.prefill - b.meanS) / 64
	if gap := float64(nowMs-b.lastSent) / 1000; b.lastSent != 0 {
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
	o := b.ownLocked(s.id)
	if sum := b.loads.Sum(s.id); sum.Waiting == 0 && sum.Streams == 0 {
		o.reg.FirstToken = nowMs
	}
	o.reg.Waiting++
	o.reg.Prefill += s.prefill
	o.reg.Tokens += s.tokens
	if len(o.young) == maxYoung {
		o.young = append(o.young[:0], o.young[1:]...)
	}
	o.young = append(o.young, youngDispatch{nowMs, s.prefill, s.tokens})
	b.publishLocked(s.id, o)
}

// raise gives a request that has no first token another size.
func (b *board) raise(s *share, prefill float64, tokens int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.started || s.over {
		return
	}
	o := b.ownLocked(s.id)
	o.reg.Prefill += prefill - s.prefill
	o.reg.Tokens += tokens - s.tokens
	s.prefill, s.tokens = prefill, tokens
	b.publishLocked(s.id, o)
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
	o := b.ownLocked(s.id)
	b.leaveQueueLocked(o, s)
	o.reg.Streams++
	o.reg.Blocks += s.blocks
	o.reg.FirstToken = nowMs
	b.publishLocked(s.id, o)
}

func (b *board) leaveQueueLocked(o *ownLoad, s *share) {
	o.reg.Waiting--
	o.reg.Prefill -= s.prefill
	o.reg.Tokens -= s.tokens
	if o.reg.Waiting == 0 {
		o.reg.Prefill, o.reg.Tokens = 0, 0 // no drift of sums
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
	o := b.ownLocked(s.id)
	if s.started {
		o.reg.Streams--
		o.reg.Blocks -= s.blocks
	} else {
		b.leaveQueueLocked(o, s)
	}
	o.prompt += uint64(promptTokens)
	o.cached += uint64(cachedTokens)
	b.publishLocked(s.id, o)
}

// learn feeds a first-token sample to the replica's rates.
func (b *board) learn(id crdt.StreamID, s policy.Sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.ownLocked(id)
	o.rates = o.rates.FirstToken(s)
}

// learnRun feeds a finished stream to the replica's rates.
func (b *board) learnRun(id crdt.StreamID, seconds float64, tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.ownLocked(id)
	o.rates = o.rates.Run(seconds, tokens)
}

// typicalRates blends what was learned of all replicas: prefill as where most
// was seen, the least decode step.
func (b *board) typicalRates() policy.Rates {
	b.mu.Lock()
	defer b.mu.Unlock()
	rates, samples := policy.Rates{}, -1
	step := math.MaxFloat64
	for _, o := range b.own {
		if n := o.rates.Samples(); n > samples {
			rates, samples = o.rates.Rates(), n
		}
		step = min(step, o.rates.Rates().T0)
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
	o := b.ownLocked(id)
	return b.loads.Sum(id), o.prompt, o.cached
}

// inflight is this peer's own requests at a replica.
func (b *board) inflight(id crdt.StreamID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.ownLocked(id)
	return int(o.reg.Waiting + o.reg.Streams)
}
