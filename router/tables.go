package router

import (
	"maps"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/index"
)

// state is the whole replicated state as the gossip core sees it.
type state struct {
	*index.Index
	*board
}

var _ gossip.State = state{}

// OwnLoads appends this peer's registers.
func (b *board) OwnLoads(dst []crdt.LoadEntry, dirty bool) []crdt.LoadEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loads.Own(dst, dirty)
}

// JoinLoads joins another peer's registers. An empty list is its heartbeat. A
// peer whose registers still come, if only through others, is not silent.
func (b *board) JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loads.Join(at, loads) > 0 || len(loads) == 0 {
		b.loads.Heard(at, time.Now().UnixMilli())
	}
}

// decay lowers what silent peers' registers count: they keep their last value
// for a while, then it fades with the mean time of a request.
func (b *board) decay(nowMs int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loads.Decay(nowMs, b.meanMs)
}

// AllLoads appends every peer's registers.
func (b *board) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loads.All(dst)
}

// DropLoads forgets a dead peer's registers and vitals.
func (b *board) DropLoads(at crdt.PeerID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loads.Drop(at)
	delete(b.vitals, at)
}

// Scrapes returns what owners last read from the engines.
func (b *board) Scrapes() map[crdt.StreamID]crdt.Scrape {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.scrapes)
}

// JoinScrapes keeps the newest scrape of each replica.
func (b *board) JoinScrapes(in map[crdt.StreamID]crdt.Scrape) {
	b.mu.Lock()
	defer b.mu.Unlock()
	joinNewer(b.scrapes, in, (*crdt.Scrape).Newer)
}

// Vitals returns what the peers say of themselves.
func (b *board) Vitals() map[crdt.PeerID]crdt.Vitals {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.vitals)
}

// JoinVitals keeps the newest word of each peer.
func (b *board) JoinVitals(in map[crdt.PeerID]crdt.Vitals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	joinNewer(b.vitals, in, (*crdt.Vitals).Newer)
}

// Intents returns the operators' words.
func (b *board) Intents() map[crdt.StreamID]crdt.Intent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.intents)
}

// JoinIntents keeps the last writer's word on each replica.
func (b *board) JoinIntents(in map[crdt.StreamID]crdt.Intent) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return joinNewer(b.intents, in, (*crdt.Intent).Newer)
}

// joinNewer puts into have what is newer in in, by the lattice's own order,
// and reports whether anything was.
func joinNewer[K comparable, V any](have, in map[K]V, newer func(a, b *V) bool) (changed bool) {
	for k, v := range in {
		if old := have[k]; newer(&v, &old) {
			have[k], changed = v, true
		}
	}
	return changed
}

// setIntent writes an operator's word with a time above all known ones.
func (b *board) setIntent(id crdt.StreamID, drain bool, nowMs int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := crdt.Intent{Time: max(nowMs, b.intents[id].Time+1), Peer: b.self, Drain: drain, Weight: 1}
	b.intents[id] = w
}

// draining reports whether an operator drains the replica.
func (b *board) draining(id crdt.StreamID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.intents[id].Drain
}
