package simulation

import (
	"maps"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	realindex "github.com/banyan-llm/banyan/router/index"
)

// faultState is a peer's replicated state: the index a router has, and the
// load lattice in tables so plain that they need no tests of their own.
type faultState struct {
	*realindex.Index
	*faultTables
}

var _ gossip.State = faultState{}

type faultTables struct {
	self    crdt.PeerID
	loads   *crdt.Loads
	own     map[crdt.StreamID]crdt.Load
	scrapes map[crdt.StreamID]crdt.Scrape
	vitals  map[crdt.PeerID]crdt.Vitals
	intents map[crdt.StreamID]crdt.Intent
}

func newFaultTables(self crdt.PeerID) *faultTables {
	return &faultTables{
		self: self, loads: crdt.NewLoads(self), own: map[crdt.StreamID]crdt.Load{},
		scrapes: map[crdt.StreamID]crdt.Scrape{}, vitals: map[crdt.PeerID]crdt.Vitals{}, intents: map[crdt.StreamID]crdt.Intent{},
	}
}

// change writes an own register.
func (t *faultTables) change(id crdt.StreamID, waiting, streams int32) {
	t.book(id, func(l *crdt.Load) {
		l.Waiting += waiting
		l.Streams += streams
	})
}

// book writes the next version of an own register.
func (t *faultTables) book(id crdt.StreamID, write func(l *crdt.Load)) {
	l := t.own[id]
	l.Version++
	write(&l)
	t.own[id] = l
	t.loads.SetOwn(id, l)
}

// OwnLoads implements gossip.State.
func (t *faultTables) OwnLoads(dst []crdt.LoadEntry, dirty bool) []crdt.LoadEntry {
	return t.loads.Own(dst, dirty)
}

// JoinLoads implements gossip.State.
func (t *faultTables) JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry) { t.loads.Join(at, loads) }

// AllLoads implements gossip.State.
func (t *faultTables) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads { return t.loads.All(dst) }

// DropLoads implements gossip.State.
func (t *faultTables) DropLoads(at crdt.PeerID) {
	t.loads.Drop(at)
	delete(t.vitals, at)
}

// Scrapes implements gossip.State.
func (t *faultTables) Scrapes() map[crdt.StreamID]crdt.Scrape { return maps.Clone(t.scrapes) }

// JoinScrapes implements gossip.State.
func (t *faultTables) JoinScrapes(in map[crdt.StreamID]crdt.Scrape) {
	for id, s := range in {
		if have := t.scrapes[id]; s.Newer(&have) {
			t.scrapes[id] = s
		}
	}
}

// Vitals implements gossip.State.
func (t *faultTables) Vitals() map[crdt.PeerID]crdt.Vitals { return maps.Clone(t.vitals) }

// JoinVitals implements gossip.State.
func (t *faultTables) JoinVitals(in map[crdt.PeerID]crdt.Vitals) {
	for id, v := range in {
		if have := t.vitals[id]; v.Newer(&have) {
			t.vitals[id] = v
		}
	}
}

// Intents implements gossip.State.
func (t *faultTables) Intents() map[crdt.StreamID]crdt.Intent { return maps.Clone(t.intents) }

// JoinIntents implements gossip.State.
func (t *faultTables) JoinIntents(in map[crdt.StreamID]crdt.Intent) (changed bool) {
	for id, w := range in {
		if have := t.intents[id]; w.Newer(&have) {
			t.intents[id], changed = w, true
		}
	}
	return changed
}

// intend writes an operator's word above all known ones.
func (t *faultTables) intend(id crdt.StreamID, drain bool, nowMs int64) {
	t.intents[id] = crdt.Intent{Time: max(nowMs, t.intents[id].Time+1), Peer: t.self, Drain: drain, Weight: 1}
}
