package gossip

import "github.com/banyan-llm/banyan/crdt"

// conn is one connection. Its peer is known once its hello came.
type conn struct {
	id       Conn
	class    Class
	dialed   bool
	expect   crdt.PeerID
	openedAt int64

	peer    *peer // nil before the hello
	knownAt int64
	remote  uint64 // the remote peer's name for this connection, for acks
	met     bool   // the remote peer has it too: it acknowledged the hello
	early   *peer  // who acknowledged the hello before its own came
	version uint8  // agreed

	// Sending. Numbers start at 1 and have no gaps.
	sent     uint64
	unacked  int // bytes in inflight
	burst    int // bytes since Writable or ack
	piece    int // bytes of inflight that are snapshots
	inflight []sentFrame
	names    naming
	movedAt  int64 // when an ack last came, or inflight became non-empty

	// Receiving.
	got     uint64 // Invariant I3: number of the last frame applied, not merely received
	acked   uint64 // last got told to the sender
	pending int    // bytes since then
	ackDue  int64  // 0 none
	heardAt int64
	clock   int64 // sender's clock in its latest frame
	offset  crdt.ClockOffset
	partial partial
	told    naming
}

// sentFrame remembers what an unacknowledged frame held, not its bytes.
type sentFrame struct {
	number   uint64
	bytes    int
	parts    []sentPart
	snapshot bool
}

// sentPart is what a frame of own slots held of one stream.
type sentPart struct {
	stream crdt.StreamID
	epoch  uint64
	slots  crdt.Spans
	lost   crdt.Spans
	since  int64 // receipt of the oldest, ms
}

// neighbours are the peers there are, the connections to them, and who dials.
type neighbours struct {
	*base
	acks    *acks
	cursor  *cursor
	digests *digests
	serving *serving
	intents *intents
	loads   *loads
	repair  *repair
	dialing dialPace
	gone    map[crdt.PeerID]gone // peers membership declared down
	refused map[refusal]string   // causes already reported, in the words for people
}

// connected opens the conversation: hello first, on every connection, both
// ways.
func (c *neighbours) connected(ev Connected) {
	if c.conns[ev.Conn] != nil || ev.Class >= Classes {
		return
	}
	cn := &conn{
		id: ev.Conn, class: ev.Class, dialed: ev.Dialed, expect: ev.Expect,
		openedAt: c.now, heardAt: c.now, version: c.cfg.MaxVersion,
	}
	c.conns[ev.Conn] = cn
	c.links = append(c.links, cn)
	c.send(cn, kindHello, c.helloBody(cn), sentFrame{})
	c.wake(c.now + helloMs)
}

// disconnected forgets a connection that the shell says is gone.
func (c *neighbours) disconnected(id Conn) {
	if cn := c.conns[id]; cn != nil {
		c.drop(cn)
	}
}

// hangup closes a connection from this side.
func (c *neighbours) hangup(cn *conn, reason string) {
	c.emit(Hangup{Conn: cn.id, Reason: reason})
	c.drop(cn)
}

// drop forgets a connection: what was in flight is owed again.
func (c *neighbours) drop(cn *conn) {
	delete(c.conns, cn.id)
	for i, x := range c.links {
		if x == cn {
			c.links = append(c.links[:i], c.links[i+1:]...)
			break
		}
	}
	p := cn.peer
	if p == nil || p.conns[cn.class] != cn {
		return
	}
	p.conns[cn.class] = nil
	p.reachedAt = c.now
	c.unsend(p, cn)
	if cn.class == Fast {
		c.repair.dropDonor(p) // the next one begins with its digest
	}
	if p.dead {
		return
	}
	if !p.member && p.conns == [Classes]*conn{} {
		if p.doubted {
			c.markGone(p.id)
		}
		c.forget(p) // only its connections vouched for it
		return
	}
	if c.now-cn.knownAt >= settleMs {
		p.tries[cn.class] = 0 // one that ends sooner is dialed with growing waits
	}
	c.planDial(p, cn.class)
}

// unsend takes back what was under way on a connection of p that ended. The
// other side does so too, and what either asked for it asks for again.
func (c *neighbours) unsend(p *peer, cn *conn) {
	if cn.class == Bulk {
		c.serving.stopSending(p)
		c.cursor.reowe(p, cn)
	} else {
		p.needFull, p.inDigest = true, false
		p.asks = nil
		if bulk := p.conns[Bulk]; bulk != nil && bulk.got > 0 {
			bulk.acked, bulk.ackDue = 0, c.now
		}
	}
	c.repair.askAgain(p, cn.class)
}

// attach makes cn the connection of its class to p, if no better one stands.
func (c *neighbours) attach(cn *conn, p *peer) bool {
	old := p.conns[cn.class]
	if old != nil && !c.better(cn, old, p) {
		c.hangup(cn, "duplicate connection")
		return false
	}
	cn.peer, cn.knownAt = p, c.now
	p.conns[cn.class] = cn
	if old != nil {
		c.hangup(old, "duplicate connection")
		c.unsend(p, old)
	}
	p.dialAt[cn.class] = 0
	p.reachedAt = c.now
	if cn.dialed {
		c.dialing.stood(len(c.order) + 1)
	}
	c.wake(c.now) // it is another's turn to be dialed
	if cn.early == p {
		c.acks.applied(cn, 1)
	}
	return true
}

// better decides between two connections to p; both ends decide alike. Of two
// dialed by one side the one it dialed later stays. Of two dialed by both, the
// smaller id's, unless the old one stood a while: then the other side would
// not have dialed if it still had it.
func (c *neighbours) better(cn, old *conn, p *peer) bool {
	switch {
	case cn.dialed == old.dialed && cn.dialed:
		return cn.id > old.id
	case cn.dialed == old.dialed:
		return cn.remote > old.remote
	case c.now-old.knownAt >= settleMs:
		return true
	}
	return cn.dialed == c.cfg.Self.Less(p.id)
}
