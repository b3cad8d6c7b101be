package router

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// lead is the prefill side of a ticket whose request two replicas share. It is
// booked like a request of its own.
type lead struct {
	*ticket
	engine string
	cut    bool // the try ended because of this side, or while it was asked

	sent bool // disagg tells of its end

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

// ended reports whether it is over.
func (l *lead) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
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
		split.Why = metrics.SplitUnsuitable
	}
	p.metrics.Splits.WithLabelValues(string(split.Why)).Inc()
	if !split.Remote() {
		if split.Whole.Pos < 0 {
			return nil, proxy.ErrNoReplica
		}
		c := &s.pools.Whole[split.Whole.Pos]
		t := p.countIn(s, c, pr, split.Whole, p.capacity.limitFor(call, now), now)
		if t == nil {
			return nil, proxy.ErrSaturated
		}
		p.sent(s, t, split.Whole.Matched, now)
		t.policyName, t.reason = pol.Name(), split.Whole.Reason
		tracePick(ctx, t, len(s.Cands), view)
		p.metrics.Decision.Observe(time.Since(now).Seconds())
		p.remember(s, call, s.pools.Whole, nil, &split.Whole, nil, t)
		p.record(s, call, s.pools.Whole, nil, &split.Whole, nil, t, pr.keys.Tokens)
		return t.target(pol.Name(), split.Whole), nil
	}
	from, to := &s.pools.Prefill[split.Prefill.Pos], &s.pools.Decode[split.Decode.Pos]
	first := p.countIn(s, from, pr, split.Prefill, nil, now)
	p.sent(s, first, split.Prefill.Matched, now)
	booked := split.Decode
	booked.Prefill, booked.Matched = 0, pr.keys.Tokens
	t := s.ticket(to, pr, booked, now)
	p.picker.BookSecond(&t.cost, &s.prompt, p.clock.ms(now))
	t.predicted, t.alone, t.prompt = split.Decode.Predicted, split.Decode, pr
	t.policyName, t.reason = pol.Name(), split.Prefill.Reason
	t.lead = &lead{ticket: first, engine: first.replica.Engine()}
	tracePick(ctx, t, len(s.Cands), view)
	p.metrics.Decision.Observe(time.Since(now).Seconds())
	p.remember(s, call, s.pools.Prefill, nil, &split.Prefill, to, t)
	p.record(s, call, s.pools.Prefill, nil, &split.Prefill, to, t, pr.keys.Tokens)
	target := t.target(pol.Name(), split.Prefill)
	target.NoHedge = true // two replicas are enough
	return target, nil
}

// pairs makes the tries that a prefill and a decode replica share, and those of
// one replica.
type pairs struct {
	clock     clock
	fleet     *fleet.Fleet
	loads     *load.Table
	mesh      *link
	metrics   *metrics.Metrics
	log       hclog.Logger
	transport *http.Transport // to replicas
	legs      *disagg.Legs
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
	body := call.Body.Clone()
	if !target.NoUsage {
		body.AskUsage()
	}
	t.lead.sent = true
	return p.legs.Send(&disagg.Try{
		Request: req, Body: body, Book: &pairBook{p, t, target},
		Prefill: t.lead.server(t.lead.engine, t.lead.headers()), Decode: t.server(t.replica.Engine(), target.Header),
	})
}

// server is the ticket's replica as a side of a pair.
func (t *ticket) server(engine string, header http.Header) disagg.Server {
	spec := &t.replica.Spec
	return disagg.Server{
		Name: spec.Name, URL: spec.URL, Engine: engine, Header: header, Labels: spec.Labels,
		Ranked: t.replica.OneOfMany(), Rank: spec.Rank, Ranks: max(spec.Ranks, t.replica.Facts().Ranks),
	}
}

// pairBook books what becomes of a pair's try.
type pairBook struct {
	pairs  *pairs
	ticket *ticket
	target *proxy.Target
}

// Ended counts the prefill leg out.
func (b *pairBook) Ended(how disagg.Outcome, usage openai.Usage, at time.Time) {
	b.pairs.endLead(b.ticket, how, usage, at)
}

// FellBack blames the prefill replica and makes the decode side the whole.
func (b *pairBook) FellBack(why error, at time.Time) {
	b.pairs.blameLead(b.ticket, why, at)
	b.pairs.fallBack(b.ticket, at)
}

// AtPrefill names the prefill replica to the client and to the next try.
func (b *pairBook) AtPrefill() { b.target.Replica = b.ticket.lead.replica.Name() }

// PrefillBroke makes the prefill replica the one to blame.
func (b *pairBook) PrefillBroke() { b.ticket.lead.cut = true }

// endLead counts the prefill leg out, once, and learns from it.
func (p *pairs) endLead(t *ticket, how disagg.Outcome, usage openai.Usage, now time.Time) {
	l := t.lead
	if l == nil || !l.end(usage) {
		return
	}
	took := now.Sub(l.at)
	p.metrics.Legs.WithLabelValues(string(how)).Inc()
	if how == disagg.Answered {
		p.loads.FirstToken(&l.cost, p.clock.ms(now))
		p.loads.Learn(l.cost.Replica, policy.Sample{Predicted: l.predicted, Prefill: l.cost.Prefill, Seen: took.Seconds()})
	}
	p.loads.Remove(&l.cost, usage.Prompt, usage.Cached)
	p.mesh.loadChanged(false)
	switch how {
	case disagg.Answered, disagg.Refused:
		l.replica.OK(now)
	case disagg.Timeout, disagg.Failed, disagg.Left: // blamed where the error is known
	}
}

// legOf names the end of a try whose prefill leg never began.
func legOf(res *proxy.Result) disagg.Outcome {
	if res.ClientGone {
		return disagg.Left
	}
	return disagg.Failed
}

// hard reports whether nobody listened.
func hard(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
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
