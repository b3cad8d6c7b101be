package kvevents

import (
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// Status is one stream as `banyan status` shows it.
type Status struct {
	Stream     crdt.StreamID
	Engine     Engine
	State      string // connecting, fresh, asking, seeking, verifying, catching up, following, quarantined, unusable, polling
	Connected  bool
	Since      time.Time // when Connected last changed
	Reconnects uint64
	LastError  string
	Epoch      uint64
	Start      uint64    // start time of the engine's process, or of its first batch, ms since 1970; 0 not known
	LastSeq    uint64    // highest slot seen
	LastEvent  time.Time // when the last batch came; zero: none yet
	Layout     Layout
	Rank       int    // data-parallel rank the engine says it has; -1 not told
	Unusable   string // why events cannot be used, and the cure; empty if they can
	Warning    string // what an operator should know although they are used; empty: nothing
	Counters   Counters
	Tracker    follow.Stats
}

// Counters counts what a stream's shell did. All only grow.
type Counters struct {
	Messages      uint64 // live messages
	BadMessages   uint64 // not the protocol's, or of an unknown sequence range
	Undecodable   uint64 // batches that could not be decoded or packed: lost slots
	Unapplied     uint64 // batches not used because the stream is unusable
	Overflow      uint64 // messages a full inbox did not take
	Late          uint64 // messages of a connection that was replaced
	Events        uint64
	DroppedEvents uint64 // events that made no sense
	UnknownFields uint64
	MisfitEvents  uint64 // stores whose block size the grid does not divide
	UnknownKinds  uint64 // stores of cache groups whose kind we do not know
	ReplayBatches uint64
}

// add counts one decoded and packed batch.
func (c *Counters) add(b *Batch, p Packed) {
	c.Events += uint64(len(b.Events))
	c.DroppedEvents += uint64(b.Dropped)
	c.UnknownFields += uint64(b.Unknown)
	c.MisfitEvents += uint64(p.Misfits)
	c.UnknownKinds += uint64(p.UnknownKinds)
}

// misfitsToJudge is how many stores must not fit, without one that does,
// before a stream is called unusable: an engine may announce a short last page
// now and then.
const misfitsToJudge = 8

// fitness judges whether a stream's block size fits the grid.
type fitness struct {
	fits, misfits int
	size          int // of the first misfit
}

// add counts a batch.
func (f *fitness) add(p Packed) {
	f.fits += p.Fits
	if f.misfits == 0 {
		f.size = p.Misfit
	}
	f.misfits += p.Misfits
}

// unusable reports whether nothing fits.
func (f *fitness) unusable() bool { return f.fits == 0 && f.misfits >= misfitsToJudge }
