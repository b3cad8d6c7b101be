package router

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/ingest"
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

// wants reports whether this peer wants to know a stream. Before every source of
// replicas has answered once nobody knows what will be listed: then it wants
// all, so that it has caught up by the time it serves.
func (p *Peer) wants(id crdt.StreamID) bool {
	return !p.discovered() || p.departed.wants(p.fleet, id)
}

// discovered reports whether every source of replicas has answered once.
func (p *Peer) discovered() bool {
	if p.found.Load() {
		return true
	}
	for _, f := range p.discovery {
		if !p.fleet.Heard(f.source) {
			return false
		}
	}
	p.found.Store(true)
	return true
}

// forgetDeparted drops what is known of replicas that left for good.
func (p *Peer) forgetDeparted(now time.Time) {
	if !p.discovered() {
		return
	}
	held := p.loads.Held(p.index.Streams(nil))
	for _, id := range p.departed.due(p.fleet, held, now) {
		if p.loads.InFlight(id) > 0 {
			continue // its last streams still run
		}
		p.index.Remove(id)
		p.loads.ForgetReplica(id)
		p.log.Info("replica forgotten", "stream", string(id))
	}
	p.index.Sweep(p.wants)
	for _, r := range p.fleet.List() {
		p.usage.replica(r.Name()) // a counter that appears with its first increase hides that increase
	}
	p.usage.keep(func(name string) bool { return p.fleet.Get(name) != nil })
}
