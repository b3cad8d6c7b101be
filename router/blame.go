package router

import (
	"errors"
	"hash/maphash"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// blame decides whom the failures of one request count against. A failure that
// the request meets again at another replica is the request's: without that,
// any client could open every breaker with a body that engines break on. So a
// failure waits for the next try: an answer elsewhere makes it the replica's, but
// for a refusal (413 and the like), which agrees that the request is wrong.
// Refused connections are not in it: no body causes them.
type blame struct {
	request string // its id, for the log
	client  uint64 // who sent it
	body    *openai.Request
	mu      sync.Mutex // tries beside each other share it
	held    []failure
}

type failure struct {
	replica  *fleet.Replica
	reason   string
	answered bool // it answered, badly: its connections and its health are fine
}

var clientSeed = maphash.MakeSeed()

// of names the request that it is of.
func (b *blame) of(call *proxy.Call) {
	b.request, b.body = call.ID, call.Body
	b.client = maphash.String(clientSeed, call.Key) ^ maphash.String(clientSeed, call.Tenant)<<1 ^ maphash.String(clientSeed, call.From)<<2
}

// sent is who sent what, to count failures by.
func (b *blame) sent() fleet.By {
	by := fleet.By{Client: b.client}
	if b.body != nil {
		by.Body = b.body.Fingerprint()
	}
	return by
}

// failed notes a failure. It returns those that count now: its own, if no other
// replica was asked and none could be.
func (b *blame) failed(f failure, another, spared bool) []failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = append(b.held, f)
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
	if res.RetryAfter > 0 {
		t.replica.Rest(now, res.RetryAfter)
	}
	switch {
	case res.ClientGone || errors.Is(res.Err, proxy.ErrDeadline):
	case errors.Is(res.Err, proxy.ErrDown): // that is known, and it may be up again by now
	case res.Err != nil && res.Wrong == openai.WrongNothing:
		guilty := t.replica
		if t.lead != nil && t.lead.cut {
			guilty = t.lead.replica
		}
		f := failure{replica: guilty, reason: fleet.Cause(res.Err)}
		if res.Cause == proxy.CauseConnect {
			h.charge(t.blame, f, true, now)
			return
		}
		h.failed(t, f, res, now)
	case badAnswer(res) != "":
		h.failed(t, failure{replica: t.replica, reason: badAnswer(res), answered: true}, res, now)
	case res.Status > 0:
		t.replica.OK(now)
		before := t.blame.answered()
		if res.Status >= 400 { // refused: the request may well break others
			h.fleet.Answered(t.replica, now, t.blame.client, fleet.AnswerRefused)
			return
		}
		h.fleet.Answered(t.replica, now, t.blame.client, fleet.AnswerGood)
		for _, f := range before {
			h.charge(t.blame, f, false, now)
		}
	}
}

// badAnswer says in a few words what is wrong with an answer; "" if nothing is.
// A refusal is wrong only if another replica was asked, and then its word counts.
func badAnswer(res *proxy.Result) string {
	switch {
	case res.Wrong != openai.WrongNothing:
		return string(res.Wrong)
	case res.Failed:
		return "an error inside the stream"
	case res.Status >= 500, res.Status == http.StatusTooManyRequests, res.Status >= 400 && res.Retried:
		return "status " + strconv.Itoa(res.Status)
	}
	return ""
}

// failed holds a failure until it is known whom it counts against.
func (h *health) failed(t *ticket, f failure, res *proxy.Result, now time.Time) {
	for _, f := range t.blame.failed(f, res.Retried, res.NoBudget) {
		h.charge(t.blame, f, false, now)
	}
}

// doubts reports whether a refusal of the target is worth another replica's
// opinion.
func (h *health) doubts(target *proxy.Target) bool {
	t := target.Token.(*ticket)
	return h.fleet.Doubtful(t.replica, time.Now())
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

// charge counts a failure of the request that b is of. Who answers is not down:
// no probe would show what is wrong with it.
func (h *health) charge(b *blame, f failure, hard bool, now time.Time) {
	if h.fleet.Misanswered(f.replica, now, b.sent(), f.reason) {
		why, left := f.replica.Ejected(now)
		h.log.Named("fleet").Warn("replica left out: its answers fail", "replica", f.replica.Name(), "reason", why, "for", left.Round(time.Second), "request", b.request)
	}
	if !f.answered && h.fleet.Fail(f.replica, now, hard, f.reason) {
		h.log.Named("fleet").Warn("replica down", "replica", f.replica.Name(), "reason", f.reason, "request", b.request)
	}
}
