package router

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// The console page draws more of the tree than the status document holds.
// Ranking it reads all of the tree (5 ns for 16 blocks), hence not each second.
const (
	pagePrefixes = 200
	prefixesFor  = 5 * time.Second
)

// sharedPrefixes is the last ranking made for the page.
type sharedPrefixes struct {
	mu   sync.Mutex // guards below; held while ranking, so that one ranks for all
	list []console.Prefix
	at   time.Time
}

// forPage is the ranking for the page, a few seconds old at most.
func (u *prefixUse) forPage() []console.Prefix {
	u.shared.mu.Lock()
	defer u.shared.mu.Unlock()
	if now := time.Now(); u.shared.list == nil || now.Sub(u.shared.at) >= prefixesFor {
		u.shared.list, u.shared.at = u.top(pagePrefixes), now
	}
	return u.shared.list
}

// page tells the console what it draws beside the status document.
type page struct {
	report    *report
	replicas  *replicaReport
	prefixes  *prefixUse
	readiness *readiness
	loads     *load.Table
	console   *console.Console
	metrics   *metrics
	log       hclog.Logger
	history   history
	unheard   map[string]bool // replicas whose events cannot be heard, as logged; observeChanges alone touches it
}

// pageStatus is the status document with a larger piece of the tree.
func (g *page) pageStatus() *console.Status {
	s := g.report.statusWith(g.prefixes.forPage())
	s.History = g.history.points()
	return s
}

// observeChanges lets the console find what changed, whoever watches.
func (g *page) observeChanges(now time.Time) {
	ready, _ := g.readiness.ready()
	replicas := g.replicas.replicaStatus(now)
	g.tellUnheard(replicas)
	g.console.Observe(&console.Status{
		TimeMs: now.UnixMilli(), Peers: g.report.peerStatus(ready), Replicas: replicas, Mesh: g.report.meshStatus(),
	})
}

// tellUnheard logs, once each, that the events of a replica cannot be heard and
// that they are heard again. Called by one goroutine.
func (g *page) tellUnheard(replicas []console.Replica) {
	now := map[string]bool{}
	for _, r := range replicas {
		if !r.Unheard() {
			continue
		}
		now[r.Name] = true
		if !g.unheard[r.Name] {
			g.log.Warn("events of a replica cannot be heard", "replica", r.Name, "err", dashed(r.Stream.Detail), "cure", unheardCure(r.Stream.Detail))
		}
	}
	for name := range g.unheard {
		if !now[name] {
			g.log.Info("events of a replica are heard again, or the replica is gone", "replica", name)
		}
	}
	g.unheard = now
}

// unscored is the score of a candidate that was not considered.
const unscored = math.MaxFloat64

// record keeps a decision among cands for the console: who was asked and, with
// scores, at what score. The replica "to" decodes what another one prefills.
func (p *requestPath) record(s *scratch, call *proxy.Call, cands []policy.Candidate, scores []float64, d *policy.Decision, to *policy.Candidate, about *ticket, tokens int) {
	if !p.recorded.allow(about.at) {
		return
	}
	c := &s.choice
	*c = console.Choice{
		TimeMs: about.at.UnixMilli(), Request: call.ID, Replica: s.replicas[cands[d.Pos].Index].Name(), Policy: about.policyName, Reason: string(d.Reason),
		Matched: d.Matched, Prompt: tokens, PredictedSeconds: d.Predicted, Candidates: c.Candidates[:0],
	}
	if to != nil {
		c.Decode = s.replicas[to.Index].Name()
	}
	for i := range cands {
		q := &cands[i]
		o := console.Option{
			Replica: s.replicas[q.Index].Name(), Score: unscored, Confirmed: q.Disk, Expected: q.Predicted, Waiting: q.Waiting, Streams: q.Streams,
		}
		if scores != nil {
			o.Score = scores[i]
		}
		c.Candidates = append(c.Candidates, o)
	}
	p.console.Decided(c)
}

// recordEvery and recordBurst bound how many decisions are kept for people:
// 64 candidates are 5 KB to copy, and the ring has 512 places.
const (
	recordEvery = 5 * time.Millisecond
	recordBurst = 512
)

// pace lets so many things through in a burst, and one an interval after that.
type pace struct {
	next atomic.Int64 // ns: the theoretical arrival time of the next one
}

func (g *pace) allow(now time.Time) bool {
	at := g.next.Load()
	next := max(at, now.UnixNano()) + int64(recordEvery)
	if next-now.UnixNano() > recordBurst*int64(recordEvery) {
		return false
	}
	g.next.CompareAndSwap(at, next) // who loses the race goes through uncounted
	return true
}
