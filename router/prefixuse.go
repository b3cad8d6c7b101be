package router

import (
	"sync"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/report"
)

// prefixUse ranks the prefixes of the tree and tells how much each is used.
type prefixUse struct {
	rules  *inForce
	fleet  *fleet.Fleet
	index  *index.Index
	roots  *report.RootNames
	hits   report.PromptHits
	shared sharedPrefixes
}

// note remembers what a dispatch found cached.
func (u *prefixUse) note(n *pick.Notice) {
	if n.Hit >= 0 {
		u.hits.Add(n.Chain.Root, n.Chain.Keys, n.Hit)
	}
}

// top lists the most shared prefixes with the names of their holders.
func (u *prefixUse) top(n int) []console.Prefix {
	names := map[crdt.StreamID]string{}
	for _, r := range u.fleet.List() {
		names[r.Stream] = r.Name()
	}
	return report.Prefixes(u.index.Top(n), &u.hits, u.roots, u.rules.config().Grid, names)
}

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
