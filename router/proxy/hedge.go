package proxy

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

// Hedge sends a streamed request to a second replica when the first one takes
// long to begin. Whoever begins first is the answer, the other one is
// cancelled. The zero value is off.
type Hedge struct {
	After      time.Duration // least wait for the first byte before it
	Percentile float64       // of recent waits for first bytes, 0-1: wait at least so long; 0: not looked at
	Ratio      float64       // hedges per request over time, at most
}

func (h *Hedge) on() bool { return (h.After > 0 || h.Percentile > 0) && h.Ratio > 0 }

// HedgeOutcome is how a hedge ended; a closed list, used as a metric label.
type HedgeOutcome string

// The outcomes.
const (
	HedgeWon    HedgeOutcome = "won"    // its answer began first
	HedgeLost   HedgeOutcome = "lost"   // the first try's did
	HedgeFailed HedgeOutcome = "failed" // neither did
)

// HedgeOutcomes lists all of them.
var HedgeOutcomes = []HedgeOutcome{HedgeWon, HedgeLost, HedgeFailed}

// errLost ends the try that was slower.
const errLost = plainError("another replica answered first")

// waits are the last waits for first bytes.
type waits struct {
	mu     sync.Mutex // guards below
	recent [256]time.Duration
	n      int // seen
	at     time.Duration
}

// minWaits is how many it takes to know a percentile, and how often it is
// taken anew.
const minWaits = 32

func (w *waits) add(d time.Duration, percentile float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recent[w.n%len(w.recent)] = d
	if w.n++; w.n%minWaits != 0 {
		return
	}
	sorted := slices.Clone(w.recent[:min(w.n, len(w.recent))])
	slices.Sort(sorted)
	w.at = sorted[min(int(percentile*float64(len(sorted))), len(sorted)-1)]
}

// percentile is the last one taken; false while too few were seen.
func (w *waits) percentile() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at, w.n >= minWaits
}

// patience is how long to wait for a try's first byte before a hedge; false if
// there is to be none.
func (x *exchange) patience(t *try) (time.Duration, bool) {
	h := &x.cfg.Hedge
	if !h.on() || x.call.Attempt > 0 || t.target.NoHedge || !x.call.Body.Stream || x.call.Endpoint == openai.Other {
		return 0, false
	}
	wait := h.After
	if h.Percentile > 0 {
		d, known := x.firstBytes.percentile()
		if !known {
			return 0, false
		}
		wait = max(wait, d)
	}
	return wait, true
}

// race makes a try and, if it is slow to begin, another one beside it. It
// returns the one that answers, or the last that failed; the other is or will
// be finished (I1). ServeHTTP waits for racers.
func (x *exchange) race(first *try, patience time.Duration) *try {
	results := make(chan *try, 2)
	start := func(t *try) {
		x.racers.Go(func() {
			x.run(t)
			results <- t
		})
	}
	start(first)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case t := <-results:
		return t
	case <-timer.C:
	}
	second := x.hedge(first)
	if second == nil {
		return <-results
	}
	start(second)
	t := <-results
	other := first
	if t == first {
		other = second
	}
	if t.result.Cause == CauseNone {
		other.cancel(errLost)
		x.racers.Go(func() {
			<-results
			other.result = Result{Err: errLost, Lost: true, Status: other.result.Status}
			x.finish(other)
		})
		x.hedged(t)
		return t
	}
	t.result.Retried = true
	x.finish(t)
	x.call.Tried = append(x.call.Tried, t.target.Replica)
	<-results
	x.hedged(other)
	return other
}

func (x *exchange) hedged(winner *try) {
	how := HedgeLost
	switch {
	case winner.result.Cause != CauseNone:
		how = HedgeFailed
	case winner.hedge:
		how = HedgeWon
	}
	if x.cfg.Hedged != nil {
		x.cfg.Hedged(how)
	}
}

// hedge finds another target; nil if there is none or the budget is spent.
func (x *exchange) hedge(first *try) *try {
	if x.r.Context().Err() != nil || !x.hedges.take(time.Now()) {
		return nil
	}
	call := *x.call // the first try reads its own
	call.Hedge, call.Tried = true, []string{first.target.Replica}
	ctx, span := x.begin(x.r.Context(), "pick")
	target, err := x.cfg.Pick(ctx, &call)
	span.End()
	if err != nil {
		return nil
	}
	return x.newTry(target, true)
}

// newTry prepares a try, so that it can be cancelled while it runs.
func (x *exchange) newTry(target *Target, hedge bool) *try {
	t := &try{target: target, hedge: hedge, resumes: x.out != nil, start: time.Now()}
	ctx, cancel := context.WithCancelCause(x.r.Context())
	t.cancel = cancel
	t.ctx = x.traceTry(ctx, t)
	return t
}
