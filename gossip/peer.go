package gossip

import (
	"cmp"

	"github.com/banyan-llm/banyan/crdt"
)

// peer is what a Core remembers of another peer: cursors, never queues of
// frames (I6).
type peer struct {
	id       crdt.PeerID
	name     string
	member   bool // membership sees it alive; false while only its hello vouches for it
	ready    bool
	draining bool
	doubted  bool // membership declared it failed, and it is heard
	dead     bool // no longer in Core.peers; what still points here drops it

	conns  [Classes]*conn
	dialAt [Classes]int64 // when the next Dial is due, 0 never
	dialed [Classes]int64 // when the last one was asked for
	tries  [Classes]int   // dials since a connection last stood for a while

	owed    map[crdt.StreamID]*owed // what this peer is still to be sent
	queue   []crdt.StreamID         // streams of owed, in order of turning up
	asks    []ask                   // wants waiting to be answered
	sending []*transfer             // snapshots on their way to this peer
	wants   int                     // our wants outstanding there

	refused   string // why its last hello was not accepted; empty if it was, or none came
	digested  bool   // its first whole digest came
	joined    bool   // it said with one that it is over its own cold join
	inDigest  bool   // a digest of several frames is coming
	digestAt  int64
	viewAt    int64 // own time as of which its latest fast frame tells
	grace     int64 // ms by which its silence may pass heartbeatMs, by its own word
	spokeAt   int64 // when it was last sent a frame on the fast connection
	reachedAt int64 // when both connections last stood or membership brought it up
	needFull  bool  // load frames were left out: the whole table must follow

	scrapes map[crdt.StreamID]uint64 // versions it has, as far as known
	vitals  map[crdt.PeerID]uint64

	in, out [kinds]Traffic
}

// owed names the slots of one stream that one peer is to be sent by this peer,
// and why nothing else is: Invariant I4: only slots this peer ingested as an
// owner ever enter it.
type owed struct {
	epoch uint64
	slots crdt.Spans
	lost  crdt.Spans
	since int64 // receipt of the oldest, ms
}

func (o *owed) empty() bool { return len(o.slots) == 0 && len(o.lost) == 0 }

// Traffic counts frames and their bytes.
type Traffic struct{ Frames, Bytes uint64 }

// peerFor returns the record of a peer, made if need be; nil if there is no
// room for one more.
func (c *neighbours) peerFor(id crdt.PeerID) *peer {
	if p := c.peers[id]; p != nil {
		return p
	}
	if len(c.peers) >= c.lim.Peers {
		c.stats.Dropped["peers"]++
		return nil
	}
	p := &peer{id: id, owed: make(map[crdt.StreamID]*owed), reachedAt: c.now, viewAt: c.now, needFull: true}
	for _, reason := range objections { // its hello may have come before membership told of it
		p.refused = cmp.Or(p.refused, c.refused[refusal{peer: id, reason: reason}])
	}
	c.insertPeer(p)
	return p
}

// both reports whether both connections stand.
func (p *peer) both() bool { return p.conns[Fast] != nil && p.conns[Bulk] != nil }

// answers reports whether a want will be answered on the bulk connection that
// stands here. A want goes by the fast one and may be there before the other
// end has seen the hello of a new bulk connection: its answer would go the way
// of the old one.
func (p *peer) answers() bool { return p.both() && p.conns[Bulk].met }

// memberUp starts or refreshes a peer. The smaller id dials; the other dials
// too if no connection came within dialLaterMs, and at once if the peer was
// turned away while it counted as down: it saw the end of a partition first,
// and waits before it tries again.
func (c *neighbours) memberUp(ev MemberUp) {
	if ev.Peer == c.cfg.Self {
		return
	}
	knocked := c.gone[ev.Peer].knocked
	delete(c.gone, ev.Peer)
	p := c.peerFor(ev.Peer)
	if p == nil {
		return
	}
	p.name, p.ready, p.draining, p.doubted = ev.Name, ev.Ready, ev.Draining, false
	if p.member {
		return
	}
	p.member, p.reachedAt = true, c.now
	for class := range p.conns {
		if p.conns[class] == nil {
			c.planDial(p, Class(class))
			if knocked {
				p.dialAt[class] = c.now + 1
				c.wake(p.dialAt[class])
			}
		}
	}
}

// memberDown forgets a peer: its load leaves exactly, its cursors go. One that is
// heard while membership declares it failed stays until it is silent: membership
// judges by a few packets, and on machines that are busy it took thousands of
// living peers for dead, of which each cost two handshakes more.
func (c *neighbours) memberDown(ev MemberDown) {
	if ev.Peer == c.cfg.Self {
		return
	}
	if !ev.Left {
		c.failedAt = c.now
	}
	p := c.peers[ev.Peer]
	switch {
	case p == nil:
		c.markGone(ev.Peer)
		c.state.DropLoads(ev.Peer)
	case !ev.Left && c.hears(p):
		p.member, p.doubted = false, true
	default:
		c.bury(p)
	}
}

// hears reports whether p spoke to this peer lately. Membership declares nobody
// failed who was silent for less than 4 s, so who died is not heard any more.
func (c *neighbours) hears(p *peer) bool { return p.conns[Fast] != nil && c.viewAge(p) < heardMs }

// bury forgets a peer that is down, and does not listen to it until membership
// says that it is up.
func (c *neighbours) bury(p *peer) {
	c.markGone(p.id)
	p.member = false
	for _, cn := range p.conns {
		if cn != nil {
			c.hangup(cn, "member down")
		}
	}
	c.forget(p)
}

// markGone remembers that membership declared a peer down, so that a late
// connection does not bring it back.
func (c *neighbours) markGone(id crdt.PeerID) {
	if len(c.gone) >= c.lim.Peers {
		for old, g := range c.gone {
			if c.now-g.at > goneMs {
				delete(c.gone, old)
			}
		}
	}
	if len(c.gone) < 4*c.lim.Peers {
		c.gone[id] = gone{at: c.now}
	}
}

// gone is a peer that membership declared down.
type gone struct {
	at      int64
	knocked bool // a hello of it was turned away since
}

// forget drops a peer's record.
func (c *neighbours) forget(p *peer) {
	if p.dead {
		return
	}
	p.dead = true
	delete(c.peers, p.id)
	for i, q := range c.order {
		if q == p {
			c.order = append(c.order[:i], c.order[i+1:]...)
			break
		}
	}
	c.state.DropLoads(p.id)
	c.serving.stopSending(p)
	c.repair.dropDonor(p)
	c.repair.askAgain(p, Bulk)
	c.digests.clearDivergence(p.id)
	c.wake(c.now)
}
