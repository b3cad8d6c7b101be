package kvevents

import (
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// Prior is what the mesh knows of a stream.
type Prior = follow.Prior

// Delivery is a run of new slots of one incarnation; without slots it says that
// another process is there than the mesh knows.
type Delivery struct {
	Stream     crdt.StreamID
	Epoch      uint64
	Anchor     uint64 // first slot obtainable when the incarnation was met; 0: none came yet
	Slots      []crdt.Slot
	ReceivedAt time.Time // when the engine's bytes arrived
}

// Sink takes what the shells of this package deliver. Its methods are called
// from a stream's own goroutine, one at a time per stream, and must not wait
// for anything slow.
type Sink interface {
	// Prior is what the mesh knows of a stream; false if nothing.
	Prior(stream crdt.StreamID) (Prior, bool)
	// Deliver takes new slots. The slices are the sink's.
	Deliver(d Delivery)
	// Exhausted says that the engine cannot give these slots any more. They are
	// lost if no peer has them.
	Exhausted(stream crdt.StreamID, epoch uint64, spans []crdt.Span)
}
