package router

import (
	"context"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// TestAnAnswerHasOneFirstToken: when another replica goes on with an answer, its
// first token is not the client's.
func TestAnAnswerHasOneFirstToken(t *testing.T) {
	p := quietPeer(t, nil)
	p.fleet.Set([]fleet.Spec{{Name: "a", URL: "http://a", Model: "m"}}, time.Now())
	body, err := openai.Parse(openai.Completions, []byte(`{"model":"m","prompt":"Go on.","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before int
		count  uint64
	}{{0, 1}, {40, 1}, {0, 2}} {
		target, err := p.path.Pick(context.Background(), &proxy.Call{Endpoint: openai.Completions, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		p.path.Done(target, proxy.Result{Status: 200, Answered: true, TTFT: 20 * time.Millisecond, Duration: time.Second, Before: c.before})
		if n := metrics.Histogram(p.path.metrics.TTFT).GetSampleCount(); n != c.count {
			t.Errorf("%d tokens came before: %d first tokens are counted, want %d", c.before, n, c.count)
		}
	}
}
