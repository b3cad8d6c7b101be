package router

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/tracing"
)

// Why a request is not even considered for two replicas; the other reasons
// are policy's.
const splitUnsuitable policy.SplitReason = "unsuitable"

// splitReasons is the closed list of the label why.
var splitReasons = []policy.SplitReason{
	policy.SplitRemote, policy.SplitOnly, policy.SplitShort, policy.SplitSooner, policy.SplitNoPair, splitUnsuitable,
}

// leg is how a prefill leg ended; a closed list, used as a metric label.
type leg string

const (
	legAnswered leg = "answered"
	legRefused  leg = "refused" // 4xx: the client is told
	legFailed   leg = "failed"  // no whole answer, or 5xx
	legTimeout  leg = "timeout"
	legLeft     leg = "left" // the client went away
)

var legs = []leg{legAnswered, legRefused, legFailed, legTimeout, legLeft}

// lead is the prefill side of a ticket whose request two replicas share. It is
// booked like a request of its own.
type lead struct {
	*ticket
	engine string
	cut    bool // the try ended because of this side, or while it was asked

	running bool // it has a goroutine of its own, which counts it out

	mu    sync.Mutex // guards below
	over  bool       // counted out
	usage openai.Usage
}

// end notes the end once.
func (l *lead) end(usage openai.Usage) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.over, l.usage = true, usage
	return true
}

// said is the usage of its answer, not Known while there is none.
func (l *lead) said() openai.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usage
}

// pickSplit decides between one replica and two, and counts the request in.
func (p *requestPath) pickSplit(ctx context.Context, call *proxy.Call, s *scratch, pr *prompt, pol policy.Policy, req *policy.Request, view *policy.View, now time.Time) (*proxy.Target, error) {
	suits := !pr.whole && !call.Hedge && disagg.Suits(call.Body)
	s.sort(suits)
	split := policy.Disaggregate(pol, &p.rules.config().Routing, req, view, &s.pools)
	if !suits {
		split.Why = splitUnsuitable
	}
	p.metrics.splits.WithLabelValues(string(split.Why)).Inc()
	if !split.Remote() {
		if split.Whole.Pos < 0 {
			return nil, proxy.ErrNoReplica
		}
		c := &s.pools.Whole[split.Whole.Pos]
		t := p.countIn(s, c, pr, split.Whole, p.capacity.limitFor(call, now), now)
		if t == nil {
			return nil, proxy.ErrSaturated
		}
		p.picker.Sent(&t.cost, &s.prompt, s.prompt.Blocks(split.Whole.Matched), p.clock.ms(now))
		t.policyName, t.reason = pol.Name(), split.Whole.Reason
		tracePick(ctx, t, len(s.Cands), view)
		p.metrics.decision.Observe(time.Since(now).Seconds())
		p.remember(s, call, s.pools.Whole, nil, &split.Whole, nil, t)
		p.record(s, call, s.pools.Whole, nil, &split.Whole, nil, t, pr.keys.Tokens)
		return t.target(pol.Name(), split.Whole), nil
	}
	from, to := &s.pools.Prefill[split.Prefill.Pos], &s.pools.Decode[split.Decode.Pos]
	first := p.countIn(s, from, pr, split.Prefill, nil, now)
	p.picker.Sent(&first.cost, &s.prompt, s.prompt.Blocks(split.Prefill.Matched), p.clock.ms(now))
	booked := split.Decode
	booked.Prefill, booked.Matched = 0, pr.keys.Tokens
	t := s.ticket(to, pr, booked, now)
	p.picker.BookSecond(&t.cost, &s.prompt, p.clock.ms(now))
	t.predicted, t.alone, t.prompt = split.Decode.Predicted, split.Decode, pr
	t.policyName, t.reason = pol.Name(), split.Prefill.Reason
	t.lead = &lead{ticket: first, engine: first.replica.Engine()}
	tracePick(ctx, t, len(s.Cands), view)
	p.metrics.decision.Observe(time.Since(now).Seconds())
	p.remember(s, call, s.pools.Prefill, nil, &split.Prefill, to, t)
	p.record(s, call, s.pools.Prefill, nil, &split.Prefill, to, t, pr.keys.Tokens)
	target := t.target(pol.Name(), split.Prefill)
	target.NoHedge = true // two replicas are enough
	return target, nil
}

// pairs makes the tries that a prefill and a decode replica share, and those of
// one replica.
type pairs struct {
	rules     *inForce
	clock     clock
	fleet     *fleet.Fleet
	loads     *load.Table
	mesh      *link
	metrics   *metrics
	log       hclog.Logger
	tracing   *tracing.Tracing // nil: off
	transport *http.Transport  // to replicas
	running   running          // prefill legs
}

// sort puts the candidates into pools by the roles of their replicas.
func (s *scratch) sort(split bool) {
	pools := &s.pools
	pools.Whole, pools.Prefill, pools.Decode = pools.Whole[:0], pools.Prefill[:0], pools.Decode[:0]
	var last []policy.Candidate // prefill replicas serve alone if nobody else can
	for i := range s.Cands {
		c := &s.Cands[i]
		r := s.replicas[c.Index]
		var pairs bool
		c.Engine, pairs = speaks(r.Engine())
		lone := r.Spec.Role == "both" || r.Engine() != "sglang" // SGLang's servers of one role cannot do the other's work
		switch {
		case r.Spec.Role == "prefill":
			if pairs && split {
				pools.Prefill = append(pools.Prefill, *c)
			}
			if lone {
				last = append(last, *c)
			}
			continue
		case r.Spec.Role == "decode" && pairs && split:
			pools.Decode = append(pools.Decode, *c)
		}
		if lone {
			pools.Whole = append(pools.Whole, *c)
		}
	}
	if len(pools.Whole) == 0 {
		pools.Whole = append(pools.Whole, last...)
	}
}

// speaks numbers the engines whose two-leg protocol is known.
func speaks(engine string) (number uint8, ok bool) {
	switch engine {
	case "vllm":
		return 1, true
	case "sglang":
		return 2, true
	case "trtllm":
		return 3, true
	}
	return 0, false
}

// attempt makes one try, in two legs if the ticket has a lead.
func (p *pairs) attempt(call *proxy.Call, target *proxy.Target, req *http.Request) (*http.Response, error) {
	t := target.Token.(*ticket)
	if t.lead == nil {
		return p.transport.RoundTrip(req)
	}
	if t.lead.engine == "sglang" {
		return p.both(call, target, t, req)
	}
	return p.inTurn(call, target, t, req)
}

// outgoing is the client's body as the proxy sends it.
func outgoing(call *proxy.Call, target *proxy.Target) *openai.Request {
	body := call.Body.Clone()
	if !target.NoUsage {
		body.AskUsage()
	}
	return body
}

// leadHeader is the header of the prefill leg: the try's, but for what names
// or authorizes at the decode replica.
func (t *ticket) leadHeader(from http.Header) http.Header {
	header := from.Clone()
	header.Del("X-Data-Parallel-Rank")
	if t.replica.Spec.Credentials != "" {
		header.Del("Authorization")
	}
	maps.Copy(header, t.lead.headers())
	return header
}

// endLead counts the prefill leg out, once, and learns from it.
func (p *pairs) endLead(t *ticket, how leg, usage openai.Usage, now time.Time) {
	l := t.lead
	if l == nil || !l.end(usage) {
		return
	}
	took := now.Sub(l.at)
	p.metrics.legs.WithLabelValues(string(how)).Inc()
	if how == legAnswered {
		p.loads.FirstToken(&l.cost, p.clock.ms(now))
		p.loads.Learn(l.cost.Replica, policy.Sample{Predicted: l.predicted, Prefill: l.cost.Prefill, Seen: took.Seconds()})
	}
	p.loads.Remove(&l.cost, usage.Prompt, usage.Cached)
	p.mesh.loadChanged(false)
	switch how {
	case legAnswered, legRefused:
		l.replica.OK(now)
	case legTimeout, legFailed, legLeft: // blamed where the error is known
	}
}

// legOf names the end of a try whose prefill leg never began.
func legOf(res *proxy.Result) leg {
	if res.ClientGone {
		return legLeft
	}
	return legFailed
}

// blameLead notes a failure of the prefill replica.
func (p *pairs) blameLead(t *ticket, err error, now time.Time) {
	r := t.lead.replica
	if p.fleet.Fail(r, now, hard(err), fleet.Cause(err)) {
		p.log.Named("fleet").Warn("replica down", "replica", r.Name(), "reason", fleet.Cause(err), "request", t.blame.request)
	}
}

// fallBack turns the decode side into the whole of the request.
func (p *pairs) fallBack(t *ticket, now time.Time) {
	t.fellBack, t.prompt.whole = true, true
	t.at, t.matched = now, t.alone.Matched
	p.loads.Resize(&t.cost, t.alone.Prefill, int64(max(1, t.keys.Tokens-t.alone.Matched)))
	p.mesh.loadChanged(true)
}

// shared reports whether the prompt was computed elsewhere, so that times and
// cached tokens of this replica's answer say nothing of its own cache.
func (t *ticket) shared() bool { return t.lead != nil && !t.fellBack }
