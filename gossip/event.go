package gossip

import "github.com/banyan-llm/banyan/crdt"

// Class is one of the two connections of a pair of peers.
type Class uint8

// The classes: small urgent frames never wait behind big ones.
const (
	Fast    Class = iota // hello, load, ack, digest, intent
	Bulk                 // slots, predictions, snapshots, keys
	Classes = 2
)

// Conn names one established connection to a peer. Ids are never reused, so
// that late events of an old connection are told apart, and grow: of two
// connections that one side dialed, the later has the larger id there.
type Conn uint64

// Event is something that happened to a Core.
type Event interface{ event() }

// The events.
type (
	// MemberUp says that membership sees the peer alive (also after a change of tags).
	MemberUp struct {
		Peer     crdt.PeerID
		Name     string
		Ready    bool
		Draining bool
	}
	// MemberDown says that membership declared the peer failed, or that it left.
	MemberDown struct {
		Peer crdt.PeerID
		Left bool
	}
	// Connected says that a connection of a class stands. The remote peer is
	// known only after its hello.
	Connected struct {
		Conn   Conn
		Class  Class
		Dialed bool        // we dialed
		Expect crdt.PeerID // the peer we dialed; zero when accepted
	}
	// Disconnected says that a connection ended.
	Disconnected struct{ Conn Conn }
	// Received carries one frame's bytes (without the length prefix).
	Received struct {
		Conn Conn
		Data []byte
	}
	// Writable says that a connection's send buffer has room again.
	Writable struct{ Conn Conn }
	// ClockSet says that the wall clock was set: it is now so many ms ahead of
	// the time of Step, negative: behind. Before the first one they are the same.
	ClockSet struct{ AheadMs int64 }
	// Ingested says that this peer, as an owner, applied new slots of a stream
	// to the State; without slots and losses, that it opened an incarnation. ReceivedAt is when the engine's bytes arrived (ms, of Step's time).
	Ingested struct {
		Stream     crdt.StreamID
		Epoch      uint64
		Slots      crdt.Spans
		Lost       []crdt.Span
		ReceivedAt int64
		First      bool // first owner: sends at once; the second fills in
	}
	// LoadChanged says that own load registers are dirty; Urgent after a dispatch.
	LoadChanged struct{ Urgent bool }
	// Predicted says that own predictions are waiting to be sent.
	Predicted struct{}
	// IntentChanged says that an operator spoke to this peer.
	IntentChanged struct{}
	// SnapshotCut answers a CutSnapshot effect; nil when the stream is gone.
	SnapshotCut struct {
		Stream   crdt.StreamID
		Snapshot *crdt.Snapshot
	}
	// SnapshotJoined answers a JoinSnapshot effect. With an error, also because
	// the state did not want it (quarantine, an older epoch), the stream is left
	// alone for 30 s.
	SnapshotJoined struct {
		Stream crdt.StreamID
		Err    error
	}
	// Tick is sent every 10 ms or when the last NextTick passed.
	Tick struct{}
)

func (ClockSet) event()       {}
func (MemberUp) event()       {}
func (MemberDown) event()     {}
func (Connected) event()      {}
func (Disconnected) event()   {}
func (Received) event()       {}
func (Writable) event()       {}
func (Ingested) event()       {}
func (LoadChanged) event()    {}
func (Predicted) event()      {}
func (IntentChanged) event()  {}
func (SnapshotCut) event()    {}
func (SnapshotJoined) event() {}
func (Tick) event()           {}

// Effect is something a Core wants done.
type Effect interface{ effect() }

// The effects.
type (
	// Send writes one frame. The shell queues it; Core keeps the sum of
	// unacknowledged bytes bounded and sends bulk frames only when Writable.
	Send struct {
		Conn Conn
		Kind string // name of the frame, for metrics
		Data []byte
	}
	// Dial opens a connection of a class to a peer.
	Dial struct {
		Peer  crdt.PeerID
		Class Class
	}
	// Hangup closes a connection, with the reason for the log.
	Hangup struct {
		Conn   Conn
		Reason string
	}
	// CutSnapshot asks for a snapshot of a stream; answer with SnapshotCut.
	CutSnapshot struct{ Stream crdt.StreamID }
	// JoinSnapshot asks to join a complete assembled snapshot; answer with SnapshotJoined.
	JoinSnapshot struct{ Snapshot *crdt.Snapshot }
	// Refused reports a peer that must not be talked to (foreign cluster, other
	// fingerprint, no common version), once per cause.
	Refused struct {
		Peer   crdt.PeerID
		Conn   Conn
		Reason string // of a closed list
		Detail string // which versions, for people; may be empty
	}
	// Observed reports the delay between an owner's receipt of a slot and its
	// visibility here.
	Observed struct {
		Peer    crdt.PeerID
		DelayMs float64
	}
	// Missing asks the local owner, if any, to fetch slots from the engine's
	// replay: no live peer has them.
	Missing struct {
		Stream crdt.StreamID
		Spans  []crdt.Span
	}
	// Caught says whether this peer's contexts cover what donors announced.
	Caught struct {
		Ready  bool
		Reason string
	}
	// Log is a line for the log, Level one of debug, info, warn, error.
	Log struct {
		Level string
		Msg   string
		Args  []any
	}
)

func (Send) effect()         {}
func (Dial) effect()         {}
func (Hangup) effect()       {}
func (CutSnapshot) effect()  {}
func (JoinSnapshot) effect() {}
func (Refused) effect()      {}
func (Observed) effect()     {}
func (Missing) effect()      {}
func (Caught) effect()       {}
func (Log) effect()          {}
