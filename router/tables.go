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

// ClockSet tells both parts how far the wall clock is ahead of this peer's.
func (s state) ClockSet(aheadMs int64) {
	s.Index.ClockSet(aheadMs)
	s.board.ClockSet(aheadMs)
}

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
		b.loads.Heard(at, b.clock.ms(time.Now()))
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
	b.addUpLocked()
}

// Scrapes returns what owners last read from the engines.
func (b *board) Scrapes() map[crdt.StreamID]crdt.Scrape {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[crdt.StreamID]crdt.Scrape, len(b.places))
	for id, pl := range b.places {
		if pl.told {
			out[id] = pl.scrape
		}
	}
	return out
}

// JoinScrapes keeps the newest scrape of each replica.
func (b *board) JoinScrapes(in map[crdt.StreamID]crdt.Scrape) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, s := range in {
		if s.Newer(&b.lookLocked(id).scrape) {
			pl := b.bareLocked(id)
			pl.told, pl.scrape = true, s
		}
	}
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
	for peer, v := range in {
		if old := b.vitals[peer]; v.Newer(&old) {
			b.vitals[peer] = v
		}
	}
	b.addUpLocked()
}

// addUpLocked sums the other peers' requests, which every decision asks for.
func (b *board) addUpLocked() {
	b.others = 0
	for peer, v := range b.vitals {
		if peer != b.self {
			b.others += v.Rate
		}
	}
}

// Intents returns the operators' words.
func (b *board) Intents() map[crdt.StreamID]crdt.Intent {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[crdt.StreamID]crdt.Intent{}
	for id, pl := range b.places {
		if pl.ruled {
			out[id] = pl.intent
		}
	}
	return out
}

// JoinIntents keeps the last writer's word on each replica.
func (b *board) JoinIntents(in map[crdt.StreamID]crdt.Intent) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, w := range in {
		if w.Newer(&b.lookLocked(id).intent) {
			pl := b.bareLocked(id)
			pl.ruled, pl.intent, changed = true, w, true
		}
	}
	return changed
}

// setIntent writes an operator's word with a time above all known ones.
func (b *board) setIntent(id crdt.StreamID, drain bool, nowMs int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pl := b.bareLocked(id)
	pl.intent = crdt.Intent{Time: max(nowMs, pl.intent.Time+1), Peer: b.self, Drain: drain, Weight: 1}
	pl.ruled = true
}

// draining reports whether an operator drains the replica.
func (b *board) draining(id crdt.StreamID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookLocked(id).intent.Drain
}
