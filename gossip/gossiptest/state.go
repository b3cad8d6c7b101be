package gossiptest

import (
	"maps"
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
)

// State is the replicated state of one test peer: real streams, and small
// tables so plain that they need no tests of their own.
type State struct {
	streams
	predictions

	self  crdt.PeerID
	own   map[crdt.StreamID]crdt.Load
	dirty map[crdt.StreamID]bool
	loads map[crdt.PeerID]map[crdt.StreamID]crdt.Load

	scrapes map[crdt.StreamID]crdt.Scrape
	vitals  map[crdt.PeerID]crdt.Vitals
	intents map[crdt.StreamID]crdt.Intent
}

// NewState makes the empty state of one peer.
func NewState(self crdt.PeerID, cfg StateConfig) *State {
	return &State{
		streams:     newStreams(cfg),
		predictions: newPredictions(),
		self:        self,
		own:         make(map[crdt.StreamID]crdt.Load),
		dirty:       make(map[crdt.StreamID]bool),
		loads:       make(map[crdt.PeerID]map[crdt.StreamID]crdt.Load),
		scrapes:     make(map[crdt.StreamID]crdt.Scrape),
		vitals:      make(map[crdt.PeerID]crdt.Vitals),
		intents:     make(map[crdt.StreamID]crdt.Intent),
	}
}

// SetLoad writes an own register; its version grows by one.
func (s *State) SetLoad(id crdt.StreamID, l crdt.Load) {
	l.Version = s.own[id].Version + 1
	s.own[id] = l
	s.dirty[id] = true
}

// OwnLoads implements gossip.State.
func (s *State) OwnLoads(dst []crdt.LoadEntry, dirty bool) []crdt.LoadEntry {
	for _, id := range sortedKeys(s.own) {
		if !dirty || s.dirty[id] {
			dst = append(dst, crdt.LoadEntry{Replica: id, Load: s.own[id]})
		}
	}
	if dirty {
		clear(s.dirty)
	}
	return dst
}

// JoinLoads implements gossip.State.
func (s *State) JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry) {
	if at == s.self {
		return
	}
	t := s.loads[at]
	if t == nil {
		t = make(map[crdt.StreamID]crdt.Load)
		s.loads[at] = t
	}
	for _, l := range loads {
		if l.Load.Version > t[l.Replica].Version {
			t[l.Replica] = l.Load
		}
	}
}

// AllLoads implements gossip.State.
func (s *State) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads {
	dst = append(dst, crdt.PeerLoads{Peer: s.self, Loads: s.OwnLoads(nil, false)})
	for at, t := range s.loads { // in any order: gossip must not depend on it
		l := crdt.PeerLoads{Peer: at}
		for _, id := range sortedKeys(t) {
			l.Loads = append(l.Loads, crdt.LoadEntry{Replica: id, Load: t[id]})
		}
		dst = append(dst, l)
	}
	return dst
}

// DropLoads implements gossip.State.
func (s *State) DropLoads(at crdt.PeerID) {
	delete(s.loads, at)
	delete(s.vitals, at)
}

// Waiting is the running sum over all registers of one replica.
func (s *State) Waiting(id crdt.StreamID) (n int32) {
	n = s.own[id].Waiting
	for _, t := range s.loads {
		n += t[id].Waiting
	}
	return n
}

// Scrapes implements gossip.State.
func (s *State) Scrapes() map[crdt.StreamID]crdt.Scrape { return s.scrapes }

// JoinScrapes implements gossip.State.
func (s *State) JoinScrapes(m map[crdt.StreamID]crdt.Scrape) {
	for id, x := range m {
		if x.Version > s.scrapes[id].Version {
			s.scrapes[id] = x
		}
	}
}

// Vitals implements gossip.State.
func (s *State) Vitals() map[crdt.PeerID]crdt.Vitals { return s.vitals }

// JoinVitals implements gossip.State.
func (s *State) JoinVitals(m map[crdt.PeerID]crdt.Vitals) {
	for id, x := range m {
		if x.Version > s.vitals[id].Version {
			s.vitals[id] = x
		}
	}
}

// Intents implements gossip.State.
func (s *State) Intents() map[crdt.StreamID]crdt.Intent { return s.intents }

// JoinIntents implements gossip.State.
func (s *State) JoinIntents(m map[crdt.StreamID]crdt.Intent) (changed bool) {
	for id, x := range m {
		have := s.intents[id]
		if x.Time > have.Time || x.Time == have.Time && have.Peer.Less(x.Peer) {
			s.intents[id], changed = x, true
		}
	}
	return changed
}

func sortedKeys[V any](m map[crdt.StreamID]V) []crdt.StreamID {
	return slices.SortedFunc(maps.Keys(m), func(a, b crdt.StreamID) int { return strings.Compare(string(a), string(b)) })
}

// OwnLoad is this peer's own register of a replica.
func (s *State) OwnLoad(id crdt.StreamID) crdt.Load { return s.own[id] }

// SetIntent writes an operator's word.
func (s *State) SetIntent(id crdt.StreamID, x crdt.Intent) {
	x.Peer = s.self
	s.intents[id] = x
}

// Hints implements gossip.State: a test peer learns no key from an answer.
func (s *State) Hints(crdt.StreamID, uint64) []crdt.Hint { return nil }
