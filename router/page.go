package router

import (
	"sync"
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/policy"
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
	return p.statusWith(list)
}

// observeChanges lets the console find what changed, whoever watches.
func (p *Peer) observeChanges(now time.Time) {
	p.console.Observe(&console.Status{
		TimeMs: now.UnixMilli(), Peers: p.peerStatus(), Replicas: p.replicaStatus(now), Mesh: p.meshStatus(),
	})
}

// record keeps a decision for the console: who was asked and at what score.
func (p *Peer) record(s *scratch, d *policy.Decision, policyName string, tokens int, at time.Time) {
	c := &s.choice
	*c = console.Choice{
		TimeMs: at.UnixMilli(), Replica: s.replicas[s.cands[d.Pos].Index].Name(), Policy: policyName, Reason: string(d.Reason),
		Matched: d.Matched, Prompt: tokens, PredictedSeconds: d.Predicted, Candidates: c.Candidates[:0],
	}
	for i := range s.cands {
		q := &s.cands[i]
		c.Candidates = append(c.Candidates, console.Option{
			Replica: s.replicas[q.Index].Name(), Score: s.scores[i], Confirmed: q.Disk, Expected: q.Predicted, Waiting: q.Waiting, Streams: q.Streams,
		})
	}
	p.console.Decided(c)
}
