package gossip

import "github.com/banyan-llm/banyan/crdt"

// State is what the protocol needs of the replicated state. router/index
// implements the streams and predictions, a table in router the rest;
// simulation uses the same. Methods are called from Step only, must not call
// back, and do their own locking.
type State interface {
	StreamState
	KeyState
	PredictionState
	LoadState
	TableState
}

// StreamState is what engines told: cursor and repair use it.
type StreamState interface {
	// Streams appends the ids of all known streams, sorted.
	Streams(dst []crdt.StreamID) []crdt.StreamID
	// Digest returns a stream's context and the sum of its base. ok is false if
	// the stream is unknown. At, if not 0 and a recent floor, asks for the sum
	// at that floor.
	Digest(id crdt.StreamID) (d crdt.Digest, ok bool)
	// SumAt returns the base sum the stream had at floor f, if still remembered.
	SumAt(id crdt.StreamID, epoch, f uint64) (crdt.Sum, bool)
	// Apply joins a delta. The slots' bodies may be kept.
	Apply(d *crdt.Delta, nowMs int64) crdt.Outcome
	// Since cuts what the owner of context c lacks from the stream's ring, at
	// most maxBytes of slot bodies (at least one slot). ok is false if the ring
	// no longer reaches back: only a snapshot helps. A delta without slots and
	// losses means that c lacks nothing.
	Since(id crdt.StreamID, c *crdt.Context, maxBytes int) (d crdt.Delta, ok bool)
	// Slots returns those of the asked slots that the ring still holds.
	Slots(id crdt.StreamID, epoch uint64, want []crdt.Span, maxBytes int) []crdt.Slot
	// Forget drops a stream whole, state and context.
	Forget(id crdt.StreamID)
}

// KeyState are the block keys of facts. A key is learned from the parent, and
// who heard of both in another order, or of the parent by an answer, may have
// linked what this peer could not. A State whose facts have all their keys
// answers with nothing.
type KeyState interface {
	// Hints lists keys of blocks which are no facts, learned from answers, of a
	// stream's incarnation, a bounded number.
	Hints(id crdt.StreamID, epoch uint64) []crdt.Hint
	// Unlinked lists facts without a key, at most maxAskedKeys, others next time.
	Unlinked(id crdt.StreamID, epoch uint64) []uint64
	// Keys tells those of the facts that have one, a bounded number.
	Keys(id crdt.StreamID, epoch uint64, handles []uint64) []crdt.Keyed
	// Link takes keys and reports how many facts it linked by them: none that
	// has a key, none whose tokens say otherwise.
	Link(id crdt.StreamID, epoch uint64, told []crdt.Keyed, nowMs int64) int
}

// PredictionState are the blocks that routers expect.
type PredictionState interface {
	// ClockSet says how far the wall clock is ahead of the times that the other
	// methods are given from now on, ms; 0 before. Predictions, which peers
	// compare, are in its time.
	ClockSet(aheadMs int64)
	// Predicting says whether this peer's predictions count from now on; they do
	// before the first call. While they do not, none is written.
	Predicting(on bool)
	// OwnPredictions moves at most max waiting predictions of this peer to dst.
	OwnPredictions(dst []crdt.Prediction, max int) []crdt.Prediction
	// JoinPredictions joins another peer's predictions; rejected counts those
	// whose time lies more than 2 s ahead.
	JoinPredictions(p []crdt.Prediction, nowMs int64) (rejected int)
	// PredictionSums returns one XOR per (space, bucket) for anti-entropy, and
	// PredictionsOf all predictions of one of them.
	PredictionSums(nowMs int64) []crdt.PredictionSum
	PredictionsOf(space crdt.PredictionSpace, bucket int64) []crdt.Prediction
}

// LoadState are the registers of requests in flight.
type LoadState interface {
	// OwnLoads appends this peer's registers; dirty restricts it to those that
	// changed since the last call with dirty.
	OwnLoads(dst []crdt.LoadEntry, dirty bool) []crdt.LoadEntry
	// JoinLoads joins registers written by peer at; sent is the age-corrected
	// time of the frame (ms).
	JoinLoads(at crdt.PeerID, loads []crdt.LoadEntry)
	// AllLoads appends the registers of all peers, for the digest round.
	AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads
	// DropLoads forgets a dead peer's registers.
	DropLoads(at crdt.PeerID)
}

// TableState are the tables of the digest round; of each entry the newest
// version wins.
type TableState interface {
	Scrapes() map[crdt.StreamID]crdt.Scrape
	JoinScrapes(map[crdt.StreamID]crdt.Scrape)
	Vitals() map[crdt.PeerID]crdt.Vitals
	JoinVitals(map[crdt.PeerID]crdt.Vitals)
	Intents() map[crdt.StreamID]crdt.Intent
	JoinIntents(map[crdt.StreamID]crdt.Intent) (changed bool)
}
