package gossip

import (
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// PeerInfo is what a Core knows of one peer.
type PeerInfo struct {
	ID          crdt.PeerID
	Name        string
	Member      bool // membership sees it alive
	Ready       bool // by its own word
	Draining    bool
	Connected   [Classes]bool
	Version     uint8  // protocol version agreed on; 0 not connected
	Refused     string // why it is not talked to, for people; empty if it is
	ViewAge     int64  // ms: how old what we know of it is
	ClockOffset int64  // ms its clock is behind ours, shortest way included
	Unacked     int    // bytes sent and not acknowledged, both connections
	AckAge      int64  // ms: the oldest slot it has not acknowledged, since receipt; 0 none
	Owed        int    // streams of which it is still to be sent slots
	In, Out     PerKind
}

// PerKind counts traffic by kind of frame. It is no map: whoever asks for all
// peers many times a second does not look at it.
type PerKind [kinds]Traffic

// ByName are the counters that are not zero, by the name of their kind.
func (k *PerKind) ByName() map[string]Traffic { return traffic((*[kinds]Traffic)(k)) }

// Peers lists all known peers by id.
func (c *Core) Peers() []PeerInfo {
	out := make([]PeerInfo, 0, len(c.order))
	for _, p := range c.order {
		out = append(out, c.info(p))
	}
	return out
}

// Link is which connections to a peer stand, and how old what is known of it is,
// ms.
type Link struct {
	Peer      crdt.PeerID
	Connected [Classes]bool
	ViewAge   int64
}

// Links appends one entry for each known peer, by id. It is what Peers tells for
// those who ask ten times a second: 128 peers cost microseconds.
func (c *Core) Links(out []Link) []Link {
	out = slices.Grow(out, len(c.order))
	for _, p := range c.order {
		out = append(out, Link{Peer: p.id, Connected: [Classes]bool{p.conns[Fast] != nil, p.conns[Bulk] != nil}, ViewAge: c.viewAge(p)})
	}
	return out
}

func (c *Core) info(p *peer) PeerInfo {
	i := PeerInfo{
		ID: p.id, Name: p.name, Refused: p.refused, Member: p.member, Ready: p.ready, Draining: p.draining,
		ViewAge: c.viewAge(p), AckAge: c.ackAge(p), Owed: len(p.owed),
		In: p.in, Out: p.out,
	}
	for class, cn := range p.conns {
		if cn == nil {
			continue
		}
		i.Connected[class], i.Version = true, cn.version
		i.Unacked += cn.unacked
	}
	if fast := p.conns[Fast]; fast != nil {
		i.ClockOffset = fast.offset.Value() + c.ahead
	}
	return i
}

// ackAge is the age of the oldest slot that p has not acknowledged.
func (c *base) ackAge(p *peer) (age int64) {
	for _, o := range p.owed {
		if !o.empty() {
			age = max(age, c.now-o.since)
		}
	}
	if bulk := p.conns[Bulk]; bulk != nil {
		for i := range bulk.inflight {
			for _, f := range bulk.inflight[i].parts {
				age = max(age, c.now-f.since)
			}
		}
	}
	return age
}

// traffic names the non-zero counters.
func traffic(t *[kinds]Traffic) map[string]Traffic {
	m := make(map[string]Traffic)
	for k, n := range t {
		if n.Frames > 0 {
			m[kind(k).String()] = n
		}
	}
	return m
}

// Stats are counters since the start, and a few gauges.
type Stats struct {
	Divergent   int // gauge: streams whose sum differs from some peer's at equal context
	Pulls       int // gauge: streams being repaired
	StagedBytes int // gauge: snapshots being received

	Divergences       uint64
	KeyMismatches     uint64            // equal facts with unequal keys, seen in digests
	KeysAsked         uint64            // frames asking for keys of facts that have none here
	KeysLinked        uint64            // facts linked by keys that a peer told
	Snapshots         map[string]uint64 // joined, by reason: join, gap, divergence, behind
	SnapshotsSent     uint64
	Wants             uint64             // sent
	Answered          uint64             // wants answered
	Pushed            uint64             // runs of own slots sent, per peer
	Applied           uint64             // slots from peers that were new
	Known             uint64             // slots from peers that were not
	Rounds            uint64             // digest rounds begun
	FuturePredictions uint64             // rejected: more than 2 s ahead
	Skipped           uint64             // frames of unknown kinds
	Rejected          map[string]uint64  // frames no correct peer sends, by cause
	Refused           map[string]uint64  // hellos, by cause
	Dropped           map[string]uint64  // work given up at a bound: see DropCauses
	Sent, Received    map[string]Traffic // all peers, by kind of frame
}

// SnapshotReasons is the closed list of Stats.Snapshots.
func SnapshotReasons() []string { return []string{"join", "gap", "divergence", "behind"} }

// DropCauses is the closed list of Stats.Dropped: a peer or a stream too many, a
// stream that this peer does not want to know or cannot hold, a message too long, more owed than a cursor names, a want without answer, a
// want too many, a snapshot too large or stuck, a piece nobody waits for, a
// join that failed, a connection that went silent.
func DropCauses() []string {
	return []string{"peers", "streams", "unwanted", "full", "message", "owed", "want", "ask", "stage", "piece", "join", "connection"}
}

// RejectCauses is the closed list of Stats.Rejected: bytes that are no
// envelope, a frame number out of turn, a frame before the hello, a payload
// out of bounds.
func RejectCauses() []string { return []string{"envelope", "number", "order", "payload"} }

func newStats() Stats {
	s := Stats{
		Snapshots: make(map[string]uint64), Rejected: make(map[string]uint64),
		Refused: make(map[string]uint64), Dropped: make(map[string]uint64),
	}
	for _, r := range SnapshotReasons() {
		s.Snapshots[r] = 0
	}
	return s
}

// Stats returns a copy of the counters.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Divergent, s.Pulls, s.StagedBytes = len(c.digests.divergent), len(c.repair.pulls), c.repair.assembled
	s.Sent, s.Received = traffic(&c.out), traffic(&c.in)
	s.Snapshots, s.Rejected = maps.Clone(s.Snapshots), maps.Clone(s.Rejected)
	s.Refused, s.Dropped = maps.Clone(s.Refused), maps.Clone(s.Dropped)
	return s
}

// ReadyLate is the reason of a Caught that came after Config.JoinBound.
const ReadyLate = "ready without the complete state of the other peers, which took too long"
