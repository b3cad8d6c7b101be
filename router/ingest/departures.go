package ingest

import (
	"slices"
	"sync"

	"github.com/banyan-llm/banyan/crdt"
)

// Departures decides which streams a peer wants to know: those of listed
// replicas, and of others for a while from when they left, or from when something
// about them was found here. What it does not want it neither takes from other
// peers nor keeps. So what nobody lists is gone everywhere that much later,
// however far apart the peers' lists changed, and whoever joins later never hears
// of it. Safe for concurrent use.
type Departures struct {
	mu     sync.Mutex // guards below
	listed map[crdt.StreamID]bool
	gone   map[crdt.StreamID]int64 // ms
}

// List tells what is listed now; the map is kept. What was listed before is gone
// from now on.
func (d *Departures) List(ids map[crdt.StreamID]bool, nowMs int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range ids {
		delete(d.gone, id)
	}
	for id := range d.listed {
		if !ids[id] {
			d.leave(id, nowMs)
		}
	}
	d.listed = ids
}

// leave notes that a replica is gone, unless it is known. Called with mu held.
func (d *Departures) leave(id crdt.StreamID, nowMs int64) {
	if d.gone == nil {
		d.gone = map[crdt.StreamID]int64{}
	}
	if _, ok := d.gone[id]; !ok {
		d.gone[id] = nowMs
	}
}

// Wants reports whether this peer wants to know a stream. O(1).
func (d *Departures) Wants(id crdt.StreamID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, leaving := d.gone[id]
	return leaving || d.listed[id]
}

// Due takes the streams that something is known of and returns those to forget
// now, which left afterMs ago and are not wanted from now on.
func (d *Departures) Due(held []crdt.StreamID, nowMs, afterMs int64) (out []crdt.StreamID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range held {
		if !d.listed[id] {
			d.leave(id, nowMs)
		}
	}
	for id, since := range d.gone {
		if nowMs-since >= afterMs {
			delete(d.gone, id)
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Leaving is how many that nobody lists here are wanted still.
func (d *Departures) Leaving() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.gone)
}
