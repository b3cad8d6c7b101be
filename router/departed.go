package router

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
)

// departedAfter is how long a replica must be gone before what is
// known of it is forgotten: longer than a node's restart.
const departedAfter = 10 * time.Minute

// departures decides which streams this peer wants to know: those of listed
// replicas, and of others for departedAfter from when they left, or from when
// something about them was found here. What it does not want it neither takes
// from other peers nor keeps. So what nobody lists is gone everywhere
// departedAfter later, however far apart the peers' lists changed, and whoever
// joins later never hears of it.
type departures struct {
	now   atomic.Pointer[listing]
	clock func() time.Time // nil: time.Now
	after time.Duration    // 0: departedAfter

	mu   sync.Mutex // guards below
	gone map[crdt.StreamID]time.Time
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
		delete(d.gone, r.Stream)
	}
	now := time.Now
	if d.clock != nil {
		now = d.clock
	}
	if before := d.now.Load(); before != nil {
		for id := range before.ids {
			if !next.ids[id] {
				d.leaveLocked(id, now())
			}
		}
	}
	d.now.Store(next)
	return next
}

// leaveLocked notes that a replica is gone, unless it is known.
func (d *departures) leaveLocked(id crdt.StreamID, now time.Time) {
	if d.gone == nil {
		d.gone = map[crdt.StreamID]time.Time{}
	}
	if _, ok := d.gone[id]; !ok {
		d.gone[id] = now
	}
}

// wants reports whether this peer wants to know a stream. Mostly two look-ups.
func (d *departures) wants(f *fleet.Fleet, id crdt.StreamID) bool {
	if d.listed(f).ids[id] {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.gone[id]
	return ok
}

// due takes the streams that something is known of and returns those to forget
// now, which are not wanted from now on.
func (d *departures) due(f *fleet.Fleet, held []crdt.StreamID, now time.Time) (out []crdt.StreamID) {
	l := d.listed(f)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range held {
		if !l.ids[id] {
			d.leaveLocked(id, now)
		}
	}
	after := d.after
	if after == 0 {
		after = departedAfter
	}
	for id, since := range d.gone {
		if now.Sub(since) >= after {
			delete(d.gone, id)
			out = append(out, id)
		}
	}
	return out
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
}
