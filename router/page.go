package router

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/router/console"
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

// pageStatus is the status document with a larger piece of the tree.
func (p *Peer) pageStatus() *console.Status {
	p.shared.mu.Lock()
	if now := time.Now(); p.shared.list == nil || now.Sub(p.shared.at) >= prefixesFor {
		p.shared.list, p.shared.at = p.prefixes(pagePrefixes), now
	}
	list := p.shared.list
	p.shared.mu.Unlock()
	s := p.statusWith(list)
	s.History = p.history.points()
	return s
}

// observeChanges lets the console find what changed, whoever watches.
func (p *Peer) observeChanges(now time.Time) {
	ready, _ := p.readiness.ready()
	replicas := p.replicaStatus(now)
	p.tellUnheard(replicas)
	p.console.Observe(&console.Status{
		TimeMs: now.UnixMilli(), Peers: p.peerStatus(ready), Replicas: replicas, Mesh: p.meshStatus(),
	})
}

// tellUnheard logs, once each, that the events of a replica cannot be heard and
// that they are heard again. Called by one goroutine.
func (p *Peer) tellUnheard(replicas []console.Replica) {
	now := map[string]bool{}
	for _, r := range replicas {
		if !r.Unheard() {
			continue
		}
		now[r.Name] = true
		if !p.unheard[r.Name] {
			p.log.Warn("events of a replica cannot be heard", "replica", r.Name, "err", dashed(r.Stream.Detail), "cure", unheardCure(r.Stream.Detail))
		}
	}
	for name := range p.unheard {
		if !now[name] {
			p.log.Info("events of a replica are heard again, or the replica is gone", "replica", name)
		}
	}
	p.unheard = now
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
