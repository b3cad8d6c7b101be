package replica

import (
	"errors"
	"fmt"
	"math"
)

// ErrTooLong means that a request can never fit into the replica's KV cache.
var ErrTooLong = errors.New("prompt and output exceed the KV cache")

// Request is one request as the model sees it.
type Request struct {
	ID     uint64 // unique among live requests
	Prompt int    // tokens, at least 1
	Output int    // tokens to produce, at least 1

	// Keys name the pages of the sequence, prompt then output: page i holds
	// tokens [i*Page, (i+1)*Page). Equal keys must mean equal prefixes. Pages
	// beyond the list are never cached; only full pages are. The slice must
	// not change until the request is done and its last events are read.
	Keys []uint64

	// Given is the number of prompt tokens whose KV another replica hands over
	// with the request (prefill/decode disaggregation): they need pages but no
	// computation, unless a preemption loses them. At least the last prompt
	// token is computed.
	Given int
}

// sequence is a live request.
//
// Invariant: len(pages)*Page >= computed+planned; pages[:named] have names.
type sequence struct {
	Request
	pages    []int32
	computed int // tokens whose KV is in pages
	planned  int // tokens the running step computes
	named    int // leading pages whose key was published
	produced int
	cached   int // see Progress; -1 until first admitted
	peak     int // most tokens ever computed, to count recomputation

	aborted bool

	depth int // leading keys found at generation gen
	gen   uint64
}

// total is the number of tokens known: prompt and produced.
func (s *sequence) total() int { return s.Prompt + s.produced }

// Replica is one modelled engine. Not safe for concurrent use.
type Replica struct {
	cfg       Config
	pool      *pool
	watermark int // pages

	running []*sequence // in order of admission
	waiting queue
	live    map[uint64]*sequence
	idle    []*sequence // finished, for reuse

	stepping bool
	start    float64 // of the running step
	end      float64
	prefill  bool // the running step holds prefill work
	told     int  // events of the last result, dropped at the next call

	tokens []Progress
	stats  Stats
}

// New returns an empty, idle replica.
func New(cfg Config) (*Replica, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	r := &Replica{
		cfg:  cfg,
		pool: newPool(cfg.Blocks, cfg.Unique),
		live: make(map[uint64]*sequence),
	}
	if cfg.Blocks != Unlimited {
		r.watermark = int(float64(cfg.Blocks) * cfg.Watermark)
	}
	return r, nil
}

// Submit adds a request at time now (seconds). Every step that ends by now
// must have been completed before. An idle replica starts a step at once.
func (r *Replica) Submit(now float64, req Request) error {
	if req.Prompt < 1 || req.Output < 1 || req.Given < 0 {
		return fmt.Errorf("request %d: prompt %d and output %d tokens, want at least 1 each; given %d, want at least 0", req.ID, req.Prompt, req.Output, req.Given)
	}
	if pages := r.pagesFor(req.Prompt + req.Output); pages > r.pool.limit {
		return fmt.Errorf("request %d: %d pages of %d: %w", req.ID, pages, r.pool.limit, ErrTooLong)
	}
	if _, dup := r.live[req.ID]; dup {
		return fmt.Errorf("request %d: id already in use", req.ID)
	}
	r.forget()
	if r.cfg.NoCache {
		req.Keys = nil
	}
	s := r.newSequence(req)
	r.live[req.ID] = s
	r.waiting.pushBack(s)
	if !r.stepping {
		r.begin(now)
	}
	return nil
}

// Abort drops a request: a waiting one at once, a running one when its step
// ends. It reports whether the request was live.
func (r *Replica) Abort(id uint64) bool {
	s, ok := r.live[id]
	if !ok || s.aborted {
		return false
	}
	if r.waiting.remove(s) {
		delete(r.live, id)
		r.recycle(s)
		return true
	}
	s.aborted = true
	return true
}

// Next is the time at which the running step ends, +Inf when idle.
func (r *Replica) Next() float64 {
	if !r.stepping {
		return math.Inf(1)
	}
	return r.end
}

// Step completes the running step if it ends by now, starts the next one at
// that very moment and returns what happened; ok is false if no step was due.
// Call it until ok is false.
func (r *Replica) Step(now float64) (res Result, ok bool) {
	if !r.stepping || r.end > now {
		return Result{}, false
	}
	r.forget()
	res.Start, res.End = r.start, r.end
	r.tokens = r.tokens[:0]
	r.complete()
	res.KV, res.Tokens = r.pool.events, r.tokens
	r.told = len(r.pool.events)
	r.begin(r.end)
	return res, true
}

// Clear drops the prefix cache as an engine's reset endpoint does. Like there
// it is refused (false) while requests run. The event comes with Drain or
// with the next step.
func (r *Replica) Clear() bool {
	if r.stepping {
		return false
	}
	r.forget()
	r.pool.clear()
	return true
}

// Drain returns events that no step has reported, valid until the next call.
func (r *Replica) Drain() []KVEvent {
	r.forget()
	r.told = len(r.pool.events)
	return r.pool.events
}

// Cached counts the tokens of a prompt that a request with these keys would
// find cached now. O(cached pages).
func (r *Replica) Cached(keys []uint64, prompt int) int {
	return r.usable(r.pool.depth(keys), prompt) * r.cfg.Page
}

// Copies counts the physical copies of every cached key (1 each if Unique),
// as told by the events of completed steps: pages that the running step
// fills are not in it yet. O(cached keys).
func (r *Replica) Copies() map[uint64]int {
	out := make(map[uint64]int, r.pool.byKey.n)
	for _, s := range r.pool.byKey.slots {
		if s.at == 0 {
			continue
		}
		n := 1
		for at := r.pool.pages[s.at].twin; at != none && !r.cfg.Unique; at = r.pool.pages[at].twin {
			n++
		}
		out[s.key] = n
	}
	for i := len(r.pool.events) - 1; i >= r.told; i-- { // undo what is still to be told
		undo(out, &r.pool.events[i])
	}
	return out
}

// undo takes one event back.
func undo(copies map[uint64]int, ev *KVEvent) {
	switch ev.Kind {
	case Removed:
		copies[ev.Key]++
	case Stored:
		for _, key := range ev.Keys {
			if copies[key]--; copies[key] == 0 {
				delete(copies, key)
			}
		}
	}
}

// Live reports whether a request is waiting or running.
func (r *Replica) Live(id uint64) bool { _, ok := r.live[id]; return ok }

// Stats returns counters and gauges; O(waiting requests).
func (r *Replica) Stats() Stats {
	st := r.stats
	st.Running, st.Waiting = len(r.running), r.waiting.len()
	st.Used = r.pool.used()
	st.Cached = r.pool.byKey.n
	if r.cfg.Blocks != Unlimited {
		st.Blocks = r.pool.limit
	}
	for _, s := range r.waiting.all() {
		st.WaitingTokens += s.total()
	}
	return st
}

// forget drops the events of the last result.
func (r *Replica) forget() {
	if r.told > 0 {
		rest := copy(r.pool.events, r.pool.events[r.told:])
		clear(r.pool.events[rest:])
		r.pool.events = r.pool.events[:rest]
		r.told = 0
	}
}

func (r *Replica) pagesFor(tokens int) int { return (tokens + r.cfg.Page - 1) / r.cfg.Page }

// usable is how many of depth cached pages a sequence of total tokens may
// reuse. I5: the last token is always computed.
func (r *Replica) usable(depth, total int) int { return min(depth, (total-1)/r.cfg.Page) }

func (r *Replica) newSequence(req Request) *sequence {
	var s *sequence
	if n := len(r.idle); n > 0 {
		s = r.idle[n-1]
		r.idle = r.idle[:n-1]
	} else {
		s = new(sequence)
	}
	*s = sequence{Request: req, pages: s.pages[:0], cached: -1, gen: math.MaxUint64}
	return s
}

func (r *Replica) recycle(s *sequence) {
	s.Keys = nil
	r.idle = append(r.idle, s)
}
