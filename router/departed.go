package router

import (
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
)

// departedAfter is how long a replica must be gone before what is
// known of it is forgotten: longer than a node's restart.
const departedAfter = 10 * time.Minute

// departures follows replicas that left: discovered ones, and those taken out of
// the configuration. In a pool whose pods come and go every one of them would
// leave its facts behind otherwise. While another peer still lists one, it comes
// back with that peer's next snapshot and goes again, once in departedAfter.
type departures struct {
	listed map[crdt.StreamID]bool
	gone   map[crdt.StreamID]time.Time
}

// due takes the present list and returns the streams to forget now. A stream
// that another peer brings back is returned again, as long later; known
// reports whether there is still something to forget.
func (d *departures) due(list []*fleet.Replica, now time.Time, known func(crdt.StreamID) bool) (out []crdt.StreamID) {
	present := make(map[crdt.StreamID]bool, len(list))
	for _, r := range list {
		present[r.Stream] = true
		delete(d.gone, r.Stream)
	}
	for id := range d.listed {
		if !present[id] {
			if d.gone == nil {
				d.gone = map[crdt.StreamID]time.Time{}
			}
			d.gone[id] = now
		}
	}
	d.listed = present
	for id, since := range d.gone {
		switch {
		case now.Sub(since) < departedAfter:
		case known(id):
			d.gone[id] = now
			out = append(out, id)
		default:
			delete(d.gone, id)
		}
	}
	return out
}

// forgetDeparted drops what is known of replicas that left for good.
func (p *Peer) forgetDeparted(now time.Time) {
	known := func(id crdt.StreamID) bool {
		_, ok := p.index.Prior(id)
		return ok || p.loads.Known(id)
	}
	for _, id := range p.departed.due(p.fleet.List(), now, known) {
		if p.loads.InFlight(id) > 0 {
			continue // its last streams still run
		}
		p.index.Forget(id)
		p.loads.ForgetReplica(id)
		p.log.Info("replica forgotten", "stream", string(id))
	}
}
