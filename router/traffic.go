package router

import (
	"sync"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
)

// traffic sums up the answers that came through this peer.
type traffic struct {
	mu  sync.Mutex // guards below
	sum policy.Traffic
}

// add counts one answer; cached is of the replica that computed the prompt.
func (t *traffic) add(u *openai.Usage, cached int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Requests++
	t.sum.Input += float64(u.Prompt)
	t.sum.Cached += float64(cached)
	t.sum.Output += float64(u.Completion)
}

func (t *traffic) total() policy.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

// advise is the prefill:decode ratio for the traffic so far, by the mean of
// what was learned of the replicas' rates.
func (rep *statusReport) advise() (ratio float64, ok bool) {
	return rep.rules.config().Routing.Disagg.Advise(rep.path.traffic.total(), rep.loads.TypicalRates())
}

// disaggStatus says how the pools are used; nil while disaggregation is off.
func (rep *statusReport) disaggStatus() *console.Disagg {
	cfg := &rep.rules.config().Routing.Disagg
	if !cfg.On() {
		return nil
	}
	s := &console.Disagg{Mode: cfg.Mode}
	for _, r := range rep.fleet.List() {
		switch {
		case !r.Up():
		case r.Spec.Role == "prefill":
			s.Prefill++
		case r.Spec.Role == "decode":
			s.Decode++
		}
	}
	for _, why := range metrics.Splits {
		n := metrics.Count(rep.metrics.Splits.WithLabelValues(string(why)))
		if why == policy.SplitRemote || why == policy.SplitOnly {
			s.Pairs += n
		} else {
			s.Whole += n
		}
	}
	for _, how := range []disagg.Outcome{disagg.Failed, disagg.Timeout} {
		s.Failed += metrics.Count(rep.metrics.Legs.WithLabelValues(string(how)))
	}
	if t := rep.path.traffic.total(); t.Requests > 0 {
		s.Input, s.Cached, s.Output = t.Input/t.Requests, t.Cached/t.Requests, t.Output/t.Requests
	}
	if ratio, ok := rep.advise(); ok {
		s.Advised = &ratio
	}
	return s
}
