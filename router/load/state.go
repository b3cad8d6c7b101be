package load

import (
	"maps"

	"github.com/banyan-llm/banyan/crdt"
)

// OwnLoads appends this peer's registers.
func (t *Table) OwnLoads(dst []crdt.LoadEntry, dirty bool) []crdt.LoadEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loads.Own(dst, dirty)
}

// JoinLoads joins another peer's registers. An empty list is its heartbeat. A
// peer whose registers still come, if only through others, is not silent.
func (t *Table) JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.recents
	r.sent, r.back = 0, 0
	changed := t.loads.Join(at, loads, t.heard)
	if changed == 0 && len(loads) > 0 {
		return
	}
	now := t.now()
	t.loads.Heard(at, now)
	if sent := r.sent - r.back; sent > 0 {
		t.fleet.add(float64(sent), now)
	}
}

// Decay lowers what silent peers' registers count: they keep their last value
// for a while, then it fades with the mean time of a request.
func (t *Table) Decay(nowMs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loads.Decay(nowMs, t.meanMs)
}

// AllLoads appends every peer's registers.
func (t *Table) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loads.All(dst)
}

// DropLoads forgets a dead peer's registers and vitals.
func (t *Table) DropLoads(at crdt.PeerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loads.Drop(at)
	delete(t.vitals, at)
}

// Scrapes returns what owners last read from the engines.
func (t *Table) Scrapes() map[crdt.StreamID]crdt.Scrape {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[crdt.StreamID]crdt.Scrape, len(t.entries))
	for id, e := range t.entries {
		if e.told {
			out[id] = e.scrape
		}
	}
	return out
}

// JoinScrapes keeps the newest scrape of each replica.
func (t *Table) JoinScrapes(in map[crdt.StreamID]crdt.Scrape) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range in {
		if s.Newer(&t.lookLocked(id).scrape) {
			e := t.bareLocked(id)
			e.told, e.scrape = true, s
		}
	}
}

// Vitals returns what the peers say of themselves.
func (t *Table) Vitals() map[crdt.PeerID]crdt.Vitals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.vitals)
}

// JoinVitals keeps the newest word of each peer.
func (t *Table) JoinVitals(in map[crdt.PeerID]crdt.Vitals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for peer, v := range in {
		if old := t.vitals[peer]; v.Newer(&old) {
			t.vitals[peer] = v
		}
	}
}

// Intents returns the operators' words.
func (t *Table) Intents() map[crdt.StreamID]crdt.Intent {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[crdt.StreamID]crdt.Intent{}
	for id, e := range t.entries {
		if e.ruled {
			out[id] = e.intent
		}
	}
	return out
}

// JoinIntents keeps the last writer's word on each replica.
func (t *Table) JoinIntents(in map[crdt.StreamID]crdt.Intent) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, w := range in {
		if w.Newer(&t.lookLocked(id).intent) {
			e := t.bareLocked(id)
			e.ruled, e.intent, changed = true, w, true
		}
	}
	return changed
}

// SetIntent writes an operator's word with a time above all known ones.
func (t *Table) SetIntent(id crdt.StreamID, drain bool, nowMs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.bareLocked(id)
	e.intent = crdt.Intent{Time: max(nowMs, e.intent.Time+1), Peer: t.self, Drain: drain, Weight: 1}
	e.ruled = true
}

// Draining reports whether an operator drains the replica.
func (t *Table) Draining(id crdt.StreamID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lookLocked(id).intent.Drain
}
