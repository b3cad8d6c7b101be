package router

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/ingest"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
)

// departedAfter is how long a replica must be gone before what is
// known of it is forgotten: longer than a node's restart.
const departedAfter = 10 * time.Minute

// departures holds the fleet's list against what is known (ingest.Departures).
type departures struct {
	now   atomic.Pointer[listing]
	clock func() time.Time // nil: time.Now
	after time.Duration    // 0: departedAfter
	mu    sync.Mutex       // one generation after the other
	rule  ingest.Departures
}

// listing is one generation of the fleet's list.
type listing struct {
	gen uint64
	ids map[crdt.StreamID]bool
}

// listed is what the fleet lists now; what it listed before is gone from now on.
func (d *departures) listed(f *fleet.Fleet) *listing {
	if l := d.now.Load(); l != nil && l.gen == f.Generation() {
		return l
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &listing{gen: f.Generation(), ids: map[crdt.StreamID]bool{}}
	for _, r := range f.List() {
		next.ids[r.Stream] = true
	}
	now := time.Now
	if d.clock != nil {
		now = d.clock
	}
	d.rule.List(next.ids, now().UnixMilli())
	d.now.Store(next)
	return next
}

// wants reports whether this peer wants to know a stream. Mostly one look-up.
func (d *departures) wants(f *fleet.Fleet, id crdt.StreamID) bool {
	return d.listed(f).ids[id] || d.rule.Wants(id)
}

// due takes the streams that something is known of and returns those to forget
// now, which are not wanted from now on.
func (d *departures) due(f *fleet.Fleet, held []crdt.StreamID, now time.Time) []crdt.StreamID {
	d.listed(f)
	return d.rule.Due(held, now.UnixMilli(), cmp.Or(d.after, departedAfter).Milliseconds())
}

// census finds the replicas that come and go, and forgets those that left.
type census struct {
	rules     *inForce
	fleet     *fleet.Fleet
	index     *index.Index
	loads     *load.Table
	usage     *metrics.Usage
	log       hclog.Logger
	discovery []finder
	departed  departures
	found     atomic.Bool // every source of replicas has answered once
}

// wants reports whether this peer wants to know a stream. Before every source of
// replicas has answered once nobody knows what will be listed: then it wants
// all, so that it has caught up by the time it serves.
func (c *census) wants(id crdt.StreamID) bool {
	return !c.discovered() || c.departed.wants(c.fleet, id)
}

// discovered reports whether every source of replicas has answered once.
func (c *census) discovered() bool {
	if c.found.Load() {
		return true
	}
	for _, f := range c.discovery {
		if !c.fleet.Heard(f.source) {
			return false
		}
	}
	c.found.Store(true)
	return true
}

// forgetDeparted drops what is known of replicas that left for good.
func (c *census) forgetDeparted(now time.Time) {
	if !c.discovered() {
		return
	}
	held := c.loads.Held(c.index.Streams(nil))
	for _, id := range c.departed.due(c.fleet, held, now) {
		if c.loads.InFlight(id) > 0 {
			continue // its last streams still run
		}
		c.index.Remove(id)
		c.loads.ForgetReplica(id)
		c.log.Info("replica forgotten", "stream", string(id))
	}
	c.index.Sweep(c.wants)
	for _, r := range c.fleet.List() {
		c.usage.Replica(r.Name()) // a counter that appears with its first increase hides that increase
	}
	c.usage.Keep(func(name string) bool { return c.fleet.Get(name) != nil })
}
