package pick

import (
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
)

// State is a peer's whole replicated state as the gossip core sees it.
type State struct {
	*index.Index
	*load.Table
	// Wants says whether the peer wants to know a replica; nil: every one.
	Wants func(crdt.StreamID) bool
}

var _ gossip.State = State{}

// ClockSet tells both parts how far the wall clock is ahead of this peer's.
func (s State) ClockSet(aheadMs int64) {
	s.Index.ClockSet(aheadMs)
	s.Table.ClockSet(aheadMs)
}

// JoinLoads leaves out replicas that this peer does not want to know: what
// others tell of them would keep them here.
func (s State) JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry) {
	if s.Wants == nil {
		s.Table.JoinLoads(at, loads)
		return
	}
	told := len(loads) > 0
	loads = slices.DeleteFunc(loads, func(e crdt.LoadEntry) bool { return !s.Wants(e.Replica) })
	if told && len(loads) == 0 {
		return // an empty list would be a heartbeat
	}
	s.Table.JoinLoads(at, loads)
}

// JoinScrapes leaves out the same.
func (s State) JoinScrapes(in map[crdt.StreamID]crdt.Scrape) {
	if s.Wants != nil {
		maps.DeleteFunc(in, func(id crdt.StreamID, _ crdt.Scrape) bool { return !s.Wants(id) })
	}
	s.Table.JoinScrapes(in)
}

// JoinIntents leaves out the same: a word on a replica that this peer forgot
// does not come back from one that forgets it later. One that lists the replica
// keeps it and tells it again to whoever lists it again.
func (s State) JoinIntents(in map[crdt.StreamID]crdt.Intent) (changed bool) {
	if s.Wants != nil {
		maps.DeleteFunc(in, func(id crdt.StreamID, _ crdt.Intent) bool { return !s.Wants(id) })
	}
	return s.Table.JoinIntents(in)
}
