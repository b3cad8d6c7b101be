package router

import (
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/workingset"
)

// mustWait reports whether a call begins a conversation for which the caches of
// its model's replicas have no room. Who has waited is let in; so is a retry.
func (c *capacity) mustWait(p *pick.Prompt, call *proxy.Call, now time.Time) bool {
	share := c.rules.config().Admission.WorkingSet
	if share == 0 || call.Attempt > 0 || call.LetIn || !c.used.Begins(p.Chain.Keys, c.clock.ms(now)) {
		return false
	}
	return call.Behind || c.used.Crowded(share, c.caches(call.Body.Model), c.clock.ms(now))
}

// roomToBegin is how many conversations that wait for a model may begin now: one
// after the other, at one peer at a time.
func (c *capacity) roomToBegin(model string) int {
	now := time.Now()
	share, seen := c.rules.config().Admission.WorkingSet, c.view.seen(now)
	if share > 0 && (!workingset.Turn(seen.Rank, seen.Peers, now.UnixMilli()) || c.used.Crowded(share, c.caches(model), c.clock.ms(now))) {
		return 0
	}
	return 1
}

// caches are those of the replicas that take requests of a model; "" is any.
func (c *capacity) caches(model string) (pool []workingset.Cache) {
	for _, r := range c.fleet.List() {
		if c.takes(r, model) {
			pool = append(pool, workingset.Cache{At: r.Stream, Tokens: c.loads.CacheTokens(r.Stream)})
		}
	}
	return pool
}

// workingSet tells what is in use of all caches; nil where no engine tells how
// large its cache is.
func (c *capacity) workingSet(now time.Time) *console.WorkingSet {
	w := &console.WorkingSet{Share: c.rules.config().Admission.WorkingSet, Seconds: workingset.Window / 1000}
	for _, cache := range c.caches("") {
		if cache.Tokens <= 0 {
			w.Unknown++
			continue
		}
		w.CacheTokens += cache.Tokens
		w.UsedTokens += c.used.Tokens(cache.At, c.clock.ms(now))
	}
	if w.CacheTokens == 0 {
		return nil
	}
	w.Again = c.used.Again(c.clock.ms(now))
	return w
}
