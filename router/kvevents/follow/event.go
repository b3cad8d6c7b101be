package follow

import "github.com/banyan-llm/banyan/crdt"

// Prior is what the mesh knows of a stream: from the replicated state, not
// from this peer's own connection.
type Prior struct {
	Epoch   uint64 // 0: the mesh knows nothing
	Anchor  uint64
	Floor   uint64
	LastSeq uint64 // highest known slot; 0: of the process only its name is known
	LastTS  int64  // its engine time, microseconds
}

// last is the mesh's last slot.
func (p *Prior) last() slotTime { return slotTime{p.LastSeq, p.LastTS} }

// slotTime is a slot's number and engine time: no other slot of the engine has
// both.
type slotTime struct {
	seq uint64
	ts  int64
}

// is reports whether a slot is the one named; one without a time never is.
func (t slotTime) is(s *crdt.Slot) bool { return t.ts != 0 && t.seq == s.Seq && t.ts == s.TS }

// Event kinds of a Tracker.
type (
	// Connected says that a connection to the engine came up. Who is at its
	// other end is asked for now.
	Connected struct{}
	// Disconnected says that it ended.
	Disconnected struct{}
	// Identified is the answer for the connection that stands: the process's
	// start time, ms since 1970; 0 if the engine offers none.
	Identified struct{ Start uint64 }
	// Live is a batch from the live stream.
	Live struct{ Slot crdt.Slot }
	// Undecodable is a live or replayed batch of which only the slot number
	// is known.
	Undecodable struct{ Seq uint64 }
	// Replayed is a batch of the replay in flight.
	Replayed struct{ Slot crdt.Slot }
	// ReplayEnded ends the replay in flight: Complete if the end marker came.
	ReplayEnded struct{ Complete bool }
	// Wanted asks for slots that no peer of the mesh has.
	Wanted struct{ Spans []crdt.Span }
	// Tick lets time pass; about four a second.
	Tick struct{}
)

// Event is one of the event kinds above.
type Event interface{ event() }

func (Connected) event()    {}
func (Disconnected) event() {}
func (Identified) event()   {}
func (Live) event()         {}
func (Undecodable) event()  {}
func (Replayed) event()     {}
func (ReplayEnded) event()  {}
func (Wanted) event()       {}
func (Tick) event()         {}

// Output is what one step decided.
type Output struct {
	// Deliver holds new slots of incarnation Epoch, whose first obtainable slot
	// is Anchor (0: none came yet), ascending except where a hole was filled.
	Deliver       []crdt.Slot
	Epoch, Anchor uint64
	// Opened: Epoch is the name of a process that the mesh does not know yet. It
	// is to be told even if nothing is delivered: what the mesh holds of the
	// process before is gone.
	Opened bool

	// Replay asks for a replay from slot From on; one in flight before is to be
	// abandoned. Again says that it repeats an attempt: wait a moment.
	Replay *ReplayFrom
	// StopReplay says that nothing more of the replay in flight is needed.
	StopReplay bool
	// HangUp asks for a new connection: what this one brings cannot be believed.
	HangUp bool

	// Exhausted are slots of Epoch that the engine's replay cannot give.
	Exhausted []crdt.Span
}

// ReplayFrom is a request for a replay.
type ReplayFrom struct {
	From  uint64
	Again bool
}

// Stats counts what a tracker saw.
type Stats struct {
	Delivered  uint64 // slots
	Duplicates uint64 // slots known before
	Restarts   uint64 // processes found where the mesh knew another one
	Ignored    uint64 // slots ignored in quarantine or over a connection that is given up
	Stale      uint64 // slots below the anchor
	Backward   uint64 // live slots with a number heard before on the same connection: ignored
	HangUps    uint64 // connections given up
	Discarded  uint64 // held slots of a connection that ended, or over the bound
	Overflows  uint64 // holds that ended because too much was held
	Replays    uint64 // asked for
	Quarantine uint64 // times entered
}
