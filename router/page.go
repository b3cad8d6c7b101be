package router

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/report"
)

// page tells the console what it draws beside the status document.
type page struct {
	report    *statusReport
	replicas  *replicaReport
	prefixes  *prefixUse
	readiness *readiness
	loads     *load.Table
	console   *console.Console
	metrics   *metrics.Metrics
	log       hclog.Logger
	history   report.History
	unheard   report.Unheard // as logged; observeChanges alone touches it
}

// pageStatus is the status document with a larger piece of the tree.
func (g *page) pageStatus() *console.Status {
	s := g.report.statusWith(g.prefixes.forPage())
	s.History = g.history.Points()
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
	lost, back := g.unheard.Look(replicas)
	for _, r := range lost {
		g.log.Warn("KV events of a replica cannot be received", "replica", r.Replica, "err", r.Why, "cure", r.Cure)
	}
	for _, name := range back {
		g.log.Info("KV events of a replica are received again, or the replica is gone", "replica", name)
	}
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

// point is the four numbers of now.
func (g *page) point(now time.Time) console.Point {
	out := console.Point{TimeMs: now.UnixMilli()}
	rate := 0.0
	for _, v := range g.loads.Vitals() {
		rate += v.Rate
	}
	out.Rate = &rate
	if r := g.report.recent.Since(now); r != nil {
		if r.PromptTokens > 0 {
			out.Cached = new(float64(r.CachedTokens) / float64(r.PromptTokens))
		}
		out.TTFT, out.Added = r.TTFTMs.P50, r.AddedMs.P50
	}
	return out
}
