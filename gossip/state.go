package gossip

import "github.com/banyan-llm/banyan/crdt"

// State is what the protocol needs of the replicated state. router/index
// implements the streams and predictions, a table in router the rest;
// simulation uses the same. Methods are called from Step only, must not call
// back, and do their own locking.
type State interface {
	// ClockSet says how far the wall clock is ahead of the times that the other
	// methods are given from now on, ms; 0 before. Predictions, which peers
	// compare, are in its time.
	ClockSet(aheadMs int64)
	// Predicting says whether this peer's predictions count from now on; they do
	// before the first call. While they do not, none is written.
	Predicting(on bool)

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

	// OwnPredictions moves at most max waiting predictions of this peer to dst.
	OwnPredictions(dst []crdt.Prediction, max int) []crdt.Prediction
	// JoinPredictions joins another peer's predictions; rejected counts those
	// whose time lies more than 2 s ahead.
	JoinPredictions(p []crdt.Prediction, nowMs int64) (rejected int)
	// PredictionSums returns one XOR per (space, bucket) for anti-entropy, and
	// PredictionsOf all predictions of one of them.
	PredictionSums(nowMs int64) []crdt.PredictionSum
	PredictionsOf(space crdt.PredictionSpace, bucket int64) []crdt.Prediction

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

	// Tables exchanged in the digest round; newest version wins.
	Scrapes() map[crdt.StreamID]crdt.Scrape
	JoinScrapes(map[crdt.StreamID]crdt.Scrape)
	Vitals() map[crdt.PeerID]crdt.Vitals
	JoinVitals(map[crdt.PeerID]crdt.Vitals)
	Intents() map[crdt.StreamID]crdt.Intent
	JoinIntents(map[crdt.StreamID]crdt.Intent) (changed bool)
}
