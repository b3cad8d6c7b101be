package router

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// shareNoter is a policy that notes what it is told of a request's share.
type shareNoter struct {
	policy.Policy
	shares []float64
}

func (a *shareNoter) Decide(req *policy.Request, view *policy.View, cands []policy.Candidate, scores []float64) policy.Decision {
	a.shares = append(a.shares, view.Share)
	return a.Policy.Decide(req, view, cands, scores)
}

func TestAPeerCountsWhatItIsAskedFor(t *testing.T) {
	p := quietPeer(t, nil)
	now := time.Now()
	p.fleet.Set([]fleet.Spec{{Name: "a", URL: "http://a", Model: "m"}, {Name: "b", URL: "http://b", Model: "m"}}, now)
	rules := p.rules.Load()
	noted := &shareNoter{Policy: rules.policies[rules.cfg.Policy]}
	rules.policies[rules.cfg.Policy] = noted
	body, err := openai.Parse(openai.Completions, []byte(`{"model":"m","prompt":"`+strings.Repeat("Everybody sends this. ", 200)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	pick := func(session string) {
		t.Helper()
		target, err := p.path.Pick(context.Background(), &proxy.Call{Endpoint: openai.Completions, Body: body, Session: session})
		if err != nil {
			t.Fatal(err)
		}
		p.path.Done(target, proxy.Result{Status: 200, Duration: time.Millisecond})
	}
	for range 9 {
		pick("")
	}
	pick("of its own")
	got := noted.shares
	if len(got) != 10 || got[0] != 0 || got[8] < .7 || got[8] > .9 || got[9] != 0 {
		t.Errorf("shares %.2f, want from 0 to 8/9, and 0 for a session", got)
	}
}
