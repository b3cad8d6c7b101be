package router

import (
	"net/url"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// kvSourceHeader names the server that holds most of the prompt, for llm-d's
// sidecar in front of an engine, which overwrites what bodies say of it.
const kvSourceHeader = "X-Kv-Cache-Source-Host-Port"

// fetch is what a try should fetch, and from whom.
type fetch struct {
	pick.Fetch
	source *fleet.Replica // nil: nothing
}

// whoFetches fills in which replicas of the set fetch from each other, if bodies
// of the API can say from whom. Prefill and decode replicas have a protocol of
// their own.
func (p *requestPath) whoFetches(s *scratch, e openai.Endpoint) {
	s.fetches = s.fetches[:0]
	if proxy.FetchesKV(e) && !p.rules.config().Routing.Disagg.On() {
		s.seeFetches()
	}
}

func (s *scratch) seeFetches() {
	s.fetches = s.fetches[:0]
	any := false
	for _, r := range s.replicas {
		fetches := r.Fetches()
		s.fetches = append(s.fetches, fetches)
		any = any || fetches
	}
	if !any {
		s.fetches = s.fetches[:0]
	}
}

// planFetch says what the try that was booked for a decision fetches. Its source
// is busy from now on, for who is decided while this one is looked at again.
func (p *requestPath) planFetch(s *scratch, d *policy.Decision, t *ticket, now time.Time) {
	f, at := s.Fetch(d)
	if at < 0 {
		return
	}
	t.fetch = fetch{Fetch: f, source: s.replicas[at]}
	p.picker.HandOut(&s.Scratch, t.fetch.source.Stream, d, p.clock.ms(now))
}

// name is the source's, "" without one.
func (f *fetch) name() string {
	if f.source == nil {
		return ""
	}
	return f.source.Name()
}

// tokens is how many tokens it is told to fetch.
func (f *fetch) tokens() int { return f.Decided.FetchTo - f.Sure }

// address is where the source's engine hands out KV blocks, "" without one.
func (f *fetch) address() string {
	if f.source == nil {
		return ""
	}
	return f.source.Spec.P2P
}

// hostPort is where the source answers requests.
func (f *fetch) hostPort() string {
	u, err := url.Parse(f.source.Spec.URL)
	if err != nil {
		panic("invariant: a replica's URL was parsed before")
	}
	return u.Host
}

// learnFetch learns from a try that was told to fetch.
func (p *requestPath) learnFetch(t *ticket, res *proxy.Result) {
	if t.fetch.source == nil {
		return
	}
	u := &res.Usage
	told := u.Known && (u.CachedKnown || t.replica.Reports()) // vLLM does not say 0
	how := t.fetch.Outcome(told, u.Cached)
	if told {
		p.loads.LearnFetch(t.cost.Replica, &t.fetch.Decided, t.first.Sub(t.at).Seconds(), how == pick.FetchCame) // below 0 of an answer in one piece: nobody saw it begin
	}
	p.metrics.Fetches.WithLabelValues(string(how)).Inc()
}
