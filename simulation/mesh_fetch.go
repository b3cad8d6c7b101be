package simulation

import (
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
)

// fetch says from whom the engine of a request that was booked should fetch.
func (m *meshRun) fetch(d *desk, i int, dec *policy.Decision) {
	t := &m.trips[i]
	f, at := d.Scratch.Fetch(dec)
	t.fetch, t.source = f, nil
	if at >= 0 {
		t.source = m.fleet[d.fleet[at]]
		d.picker.HandOut(&d.Scratch, t.source.stream, dec, d.peer.now())
	}
}

// learnFetch counts what came of a request's fetch and learns from it; told: it
// was answered.
func (m *meshRun) learnFetch(d *desk, i int, told bool) {
	j, t := &m.books.jobs[i], &m.trips[i]
	if t.source == nil {
		return
	}
	how := t.fetch.Outcome(told, j.cached)
	m.books.fetches[how]++
	if told && m.books.cfg.Learn {
		d.peer.loads.LearnFetch(t.engine.stream, &t.fetch.Decided, float64(t.began-t.sent)/1000, how == pick.FetchCame)
	}
}
