package router

import (
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
)

// state is the whole replicated state as the gossip core sees it.
type state struct {
	*index.Index
	*load.Table
	wants func(crdt.StreamID) bool
}

var _ gossip.State = state{}

// ClockSet tells both parts how far the wall clock is ahead of this peer's.
func (s state) ClockSet(aheadMs int64) {
	s.Index.ClockSet(aheadMs)
	s.Table.ClockSet(aheadMs)
}

// JoinLoads leaves out replicas that this peer does not want to know: what
// others tell of them would keep them here.
func (s state) JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry) {
	told := len(loads) > 0
	loads = slices.DeleteFunc(loads, func(e crdt.LoadEntry) bool { return !s.wants(e.Replica) })
	if told && len(loads) == 0 {
		return // an empty list would be a heartbeat
	}
	s.Table.JoinLoads(at, loads)
}

// JoinScrapes leaves out the same.
func (s state) JoinScrapes(in map[crdt.StreamID]crdt.Scrape) {
	maps.DeleteFunc(in, func(id crdt.StreamID, _ crdt.Scrape) bool { return !s.wants(id) })
	s.Table.JoinScrapes(in)
}
