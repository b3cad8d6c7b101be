package router

import (
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
)

// state is the whole replicated state as the gossip core sees it.
type state struct {
	*index.Index
	*load.Table
}

var _ gossip.State = state{}

// ClockSet tells both parts how far the wall clock is ahead of this peer's.
func (s state) ClockSet(aheadMs int64) {
	s.Index.ClockSet(aheadMs)
	s.Table.ClockSet(aheadMs)
}
