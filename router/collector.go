package router

import (
	"time"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
)

// stateOf is what a scrape is told of a peer's state.
func stateOf(p *Peer) *metrics.State {
	now := time.Now()
	s := &metrics.State{
		Draining: p.readiness.draining.Load(), ConfigHash: p.rules.configHash(), Certificates: map[string]float64{},
		Sources: map[string]bool{}, Saturation: p.path.capacity.saturation(now),
		Index: p.index.Stats(), Queue: p.front.waiting(), Keys: p.tokens.Stats(), AccessLog: p.journal.access.Stats(),
	}
	s.Ready, _ = p.readiness.ready()
	s.Advised, _ = p.report.advise()
	replicas := p.fleet.List()
	for _, r := range replicas {
		s.Replicas = append(s.Replicas, p.report.replicas.measured(r, p.path.capacity, s, now))
	}
	if p.rules.config().Routing.Disagg.On() {
		s.Roles = rolesUp(replicas)
	}
	for _, f := range p.census.discovery {
		s.Sources[f.source] = f.trouble() == ""
	}
	rules := p.rules.Load()
	for listener, cert := range map[string]*access.Certificate{"http": rules.HTTP, "admin": rules.Admin} {
		if cert != nil {
			s.Certificates[listener] = cert.Ends()
		}
	}
	p.path.view.measure(s)
	if p.tracing != nil {
		spans := p.tracing.Stats()
		s.Spans = &spans
	}
	return s
}

// measured is a replica as a scrape is told of it; what its stream counted is
// added to s.
func (rep *replicaReport) measured(r *fleet.Replica, c *capacity, s *metrics.State, now time.Time) metrics.Replica {
	unfit, _ := r.Unfit()
	out := metrics.Replica{
		Name: r.Name(), InFlight: rep.loads.InFlight(r.Stream), Up: r.Up() && unfit == "", Draining: rep.loads.Draining(r.Stream),
		InUse: c.used.Tokens(r.Stream, rep.clock.ms(now)),
	}
	_, left := r.Ejected(now)
	out.Ejected = left > 0
	if st, ok := rep.ingest.told(r.Stream); ok {
		if heard, known := rep.ingest.hears(r.Stream, &st); known {
			out.Heard = &heard
		}
		s.Unknown += st.Counters.UnknownKinds
		s.Ignored += st.Tracker.Backward + st.Tracker.Stale + st.Tracker.Ignored
	}
	return out
}

// measure fills in how well the peers agree.
func (m *meshView) measure(s *metrics.State) {
	s.ViewAgeMs, _ = m.viewAge()
	if core := m.coreStats.Load(); core != nil {
		s.Core = *core
	}
	v := m.ages.Load()
	if v == nil {
		return
	}
	for _, info := range v.list {
		if info.Member && info.Refused != "" {
			s.Refusing++
		}
		if off := float64(info.ClockOffset); info.Member && max(off, -off) > max(s.ClockMs, -s.ClockMs) {
			s.ClockMs = off
		}
	}
}
