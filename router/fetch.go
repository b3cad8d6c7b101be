package router

import (
	"net/url"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// kvSourceHeader names the server that holds most of the prompt, for llm-d's
// sidecar in front of an engine, which overwrites what bodies say of it.
const kvSourceHeader = "X-Kv-Cache-Source-Host-Port"

// fetch is what a try should fetch of its prompt, and from whom.
type fetch struct {
	source  *fleet.Replica // nil: nothing
	decided policy.Decision
	sure    int // tokens that its replica held for certain
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

// fetchFrom is what the winner of a decision fetches.
func (s *scratch) fetchFrom(d *policy.Decision) fetch {
	at := s.Source(d)
	if at < 0 {
		return fetch{}
	}
	return fetch{source: s.replicas[at], decided: *d, sure: s.Cands[d.Pos].Disk}
}

// name is the source's, "" without one.
func (f *fetch) name() string {
	if f.source == nil {
		return ""
	}
	return f.source.Name()
}

// tokens is how many tokens it is told to fetch.
func (f *fetch) tokens() int { return f.decided.FetchTo - f.sure }

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
	how := metrics.FetchUnknown
	if u := &res.Usage; u.Known && (u.CachedKnown || t.replica.Reports()) { // vLLM does not say 0
		d := &t.fetch.decided
		got := 2*u.Cached >= t.fetch.sure+d.FetchTo
		if how = metrics.FetchComputed; got {
			how = metrics.FetchCame
		}
		p.loads.LearnFetch(t.cost.Replica, d, t.first.Sub(t.at).Seconds(), got) // below 0 of an answer in one piece: nobody saw it begin
	}
	p.metrics.Fetches.WithLabelValues(how).Inc()
}
