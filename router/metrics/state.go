package metrics

import (
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/requests"
	"github.com/banyan-llm/banyan/router/token"
	"github.com/banyan-llm/banyan/router/tracing"
)

// State is what a peer is like when somebody scrapes.
type State struct {
	Ready, Draining bool
	ConfigHash      uint32
	Certificates    map[string]float64 // by listener: when it ends, Unix s

	Replicas   []Replica
	Sources    map[string]bool // of replicas: whether it answers
	Saturation map[Pool]float64
	Roles      map[string]int // replicas that may get requests; nil unless roles are kept apart
	Advised    float64        // prefill replicas that go with one decode replica; 0: not measured

	Unknown uint64 // stored blocks of cache groups that this version does not know
	Ignored uint64 // event batches not taken

	Index     index.Stats
	Core      gossip.Stats
	ViewAgeMs float64 // of the worst live peer
	ClockMs   float64 // largest difference to a live peer
	Refusing  int     // live peers that this one does not talk to

	Queue     proxy.Stats
	Keys      token.Stats
	AccessLog requests.Stats
	Spans     *tracing.Stats // nil: tracing is off
}

// Replica is one of a State.
type Replica struct {
	Name         string
	InFlight     int   // this peer's own requests
	Up, Draining bool  // it may get requests; an operator drained it
	Ejected      bool  // left out for its answers
	InUse        int64 // tokens of the working set
	Heard        *bool // whether its events are; nil: they are not followed
}

// Pool is what an autoscaler makes larger: the replicas of one role that serve
// one model.
type Pool struct{ Model, Role string }
