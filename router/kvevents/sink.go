package kvevents

import (
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// Delivery is a run of new slots of one incarnation.
type Delivery struct {
	Stream     crdt.StreamID
	Epoch      uint64
	Anchor     uint64 // first slot obtainable when the incarnation was met
	Slots      []crdt.Slot
	ReceivedAt time.Time // when the engine's bytes arrived
}

// Revival says that an outranked incarnation is the engine's present one.
type Revival struct {
	Stream crdt.StreamID
	Epoch  uint64 // that it had
	// Anew: it was outranked by a false detection and gets the present epoch
	// + 1 ms. Else it is the present one, which another owner named.
	Anew bool
}

// Sink takes what the shells of this package deliver. Its methods are called
// from a stream's own goroutine, one at a time per stream, and must not wait
// for anything slow.
type Sink interface {
	// Prior is what the mesh knows of a stream; false if nothing.
	Prior(stream crdt.StreamID) (Prior, bool)
	// Deliver takes new slots. The slices are the sink's.
	Deliver(d Delivery)
	// Revive brings back an incarnation that the mesh outranked. It comes before
	// what is delivered under the epoch that the incarnation gets.
	Revive(r Revival)
	// Exhausted says that the engine cannot give these slots any more. They are
	// lost if no peer has them.
	Exhausted(stream crdt.StreamID, epoch uint64, spans []crdt.Span)
}
