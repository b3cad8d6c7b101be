package router

import (
	"context"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// secondLook is what became of a decision that was looked at again.
type secondLook struct {
	waited time.Duration // 0: it was sent at once
	from   string        // the replica that it left; "": none
}

// settle looks at a booked decision again before it is sent, if that is worth
// the wait: until then other peers may have sent as much to the same replica.
// d becomes the decision that holds, the ticket is its. An error: the client
// left, and nothing is booked any more.
func (p *requestPath) settle(ctx context.Context, s *scratch, call *proxy.Call, pr *prompt, pol policy.Policy, d *policy.Decision, t *ticket) (*ticket, error) {
	if !pick.WorthAgain(pol, &s.View, d, len(s.Cands)) {
		return t, nil
	}
	timer := time.NewTimer(pick.AgainMs * time.Millisecond)
	defer timer.Stop()
	for range pick.MaxLooks {
		select {
		case <-ctx.Done():
			p.metrics.Looked(pick.LookLeft)
			p.loads.Remove(&t.cost, 0, 0)
			p.mesh.loadChanged(false)
			return nil, ctx.Err()
		case <-timer.C:
		}
		next, how := p.lookAgain(s, call, pr, pol, d, t)
		p.metrics.Looked(how)
		next.second.waited = time.Since(t.begun)
		if how != pick.LookMoved {
			break
		}
		next.second.from = t.replica.Name()
		t = next
		timer.Reset(pick.AgainMs * time.Millisecond)
	}
	t.at = time.Now() // what its replica takes is counted from now
	return t, nil
}

// lookAgain decides a booked request anew by what was heard since, and books it
// at its new replica.
func (p *requestPath) lookAgain(s *scratch, call *proxy.Call, pr *prompt, pol policy.Policy, d *policy.Decision, t *ticket) (*ticket, pick.Look) {
	if !p.loads.News(&t.cost) {
		return t, pick.LookAlone
	}
	now := time.Now()
	p.picker.Match(&s.prompt, &s.Scratch)
	p.picker.Look(&s.Scratch, p.view.seen(now), p.clock.ms(now), s.rand)
	p.gather(s, now) // all that may be tried: Move knows who is full, the policy who is drained
	d.Pos = slices.IndexFunc(s.Cands, func(c policy.Candidate) bool { return s.replicas[c.Index] == t.replica })
	next, how := p.picker.Again(&s.Scratch, pol, d.Pos, &t.cost)
	if how == pick.LookStayed {
		return t, how
	}
	other := s.ticket(&s.Cands[next.Pos], pr, next, t.begun)
	if !p.loads.Move(&t.cost, other.cost, p.capacity.limitFor(call, now), p.clock.ms(now)) {
		return t, pick.LookStayed
	}
	p.mesh.loadChanged(true)
	other.cost, *d = t.cost, next
	return other, how
}
