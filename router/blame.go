package router

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/proxy"
)

// blame decides whom the failures of one request count against. A failure that
// the request meets again at another replica is the request's: without that,
// any client could open every breaker with a body that engines break on. So a
// failure waits for the next try: an answer elsewhere makes it the replica's, but
// for a refusal (413 and the like), which agrees that the request is wrong.
// Refused connections are not in it: no body causes them.
type blame struct {
	request string     // its id, for the log
	mu      sync.Mutex // tries beside each other share it
	held    []failure
}

type failure struct {
	replica *fleet.Replica
	reason  string
}

// failed notes a failure. It returns those that count now: its own, if no other
// replica was asked and none could be.
func (b *blame) failed(r *fleet.Replica, reason string, another, spared bool) []failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = append(b.held, failure{r, reason})
	if another {
		return nil
	}
	return b.endLocked(spared)
}

// end is told that no other try follows.
func (b *blame) end() []failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.endLocked(false)
}

// endLocked: one failure alone counts, unless a second opinion was due and only
// the budget of retries denied it; a client could spend that as well.
func (b *blame) endLocked(spared bool) []failure {
	held := b.held
	b.held = nil
	if spared || len(held) > 1 {
		return nil
	}
	return held
}

// answered returns the failures before an answer; if that is no refusal, the
// request was fine.
func (b *blame) answered() []failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.held
	b.held = nil
	return held
}

// health counts failures of requests against replicas.
type health struct {
	fleet *fleet.Fleet
	log   hclog.Logger
}

// judge counts what a try tells of its replica's health.
func (h *health) judge(t *ticket, res *proxy.Result, now time.Time) {
	switch {
	case res.Err != nil && !res.ClientGone && !errors.Is(res.Err, proxy.ErrDeadline):
		guilty := t.replica
		if t.lead != nil && t.lead.cut {
			guilty = t.lead.replica
		}
		if res.Cause == proxy.CauseConnect {
			h.charge(t.blame, failure{guilty, fleet.Cause(res.Err)}, true, now)
			return
		}
		for _, f := range t.blame.failed(guilty, fleet.Cause(res.Err), res.Retried, res.NoBudget) {
			h.charge(t.blame, f, false, now)
		}
	case res.Status > 0 && res.Status < 500:
		t.replica.OK(now)
		before := t.blame.answered()
		if res.Status >= 400 { // refused: the request may well break others
			return
		}
		for _, f := range before {
			h.charge(t.blame, f, false, now)
		}
	}
}

// noOther is told that a call finds no replica for another try.
func (h *health) noOther(call *proxy.Call) {
	pr, ok := call.Memo.(*prompt)
	if !ok {
		pr, ok = call.Lost.(*prompt)
	}
	if ok && !call.Hedge {
		b := pr.guilt()
		for _, f := range b.end() {
			h.charge(b, f, false, time.Now())
		}
	}
}

// charge counts a failure of the request that b is of.
func (h *health) charge(b *blame, f failure, hard bool, now time.Time) {
	if h.fleet.Fail(f.replica, now, hard, f.reason) {
		h.log.Named("fleet").Warn("replica down", "replica", f.replica.Name(), "reason", f.reason, "request", b.request)
	}
}
