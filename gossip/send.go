package gossip

import (
	"encoding/binary"
	"fmt"
	"math"
)

// send numbers a payload, puts it into frames and remembers what it held. A
// payload beyond one frame goes in fragments; what it held counts with the
// last of them.
func (c *base) send(cn *conn, k kind, body []byte, held sentFrame) { c.sendAs(cn, k, k, body, held) }

// sendAs is send for a kind that counts as another.
func (c *base) sendAs(cn *conn, k, as kind, body []byte, held sentFrame) {
	if len(body) <= c.lim.FragmentBytes {
		c.sendFrame(cn, k, as, body, held)
		return
	}
	if len(body) > c.lim.MessageBytes {
		c.stats.Dropped["message"]++
		return
	}
	size := c.lim.FragmentBytes
	n := (len(body) + size - 1) / size
	for i := range n {
		part := body[i*size : min((i+1)*size, len(body))]
		b := c.newBody(5 + len(part))
		b = append(b, byte(k))
		b = binary.LittleEndian.AppendUint16(b, uint16(i))
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
		b = append(b, part...)
		last := sentFrame{}
		if i == n-1 {
			last = held
		}
		c.sendFrame(cn, kindFragment, as, b, last)
	}
}

// sendFrame sends one frame of kind k that counts as kind as.
func (c *base) sendFrame(cn *conn, k, as kind, body []byte, held sentFrame) {
	cn.sent++
	data := encodeFrame(cn.version, k, cn.sent, body)
	held.number, held.bytes = cn.sent, len(data)
	if len(cn.inflight) == 0 {
		cn.movedAt = c.now
	}
	if k != kindAck {
		cn.inflight = append(cn.inflight, held)
		cn.unacked += len(data)
		cn.burst += len(data)
		if held.snapshot {
			cn.piece += len(data)
		}
	}
	if cn.peer != nil {
		count(&cn.peer.out[as], len(data))
		if cn.class == Fast {
			cn.peer.spokeAt = c.now
		}
	}
	count(&c.out[as], len(data))
	c.emit(Send{Conn: cn.id, Kind: as.String(), Data: data})
}

func count(t *Traffic, bytes int) {
	t.Frames++
	t.Bytes += uint64(bytes)
}

// room reports whether a bulk connection may take more. The window is the sum
// of unacknowledged bytes (I5); within it at most a burst before the shell or
// an ack says that bytes are moving.
func (c *base) room(cn *conn) bool {
	return cn != nil && cn.unacked < c.lim.UnackedBytes && cn.burst < c.lim.BurstBytes
}

// fastRoom reports whether a fast connection keeps up; tables wait if not.
func (c *base) fastRoom(cn *conn) bool {
	return cn != nil && cn.unacked < c.lim.BurstBytes && len(cn.inflight) < maxFastFrames
}

const maxFastFrames = 1 << 13

// writable says that the shell's buffer has room again.
func (c *Core) writable(id Conn) {
	cn := c.conns[id]
	if cn == nil {
		return
	}
	cn.burst = 0
	if cn.peer != nil && cn.class == Bulk {
		c.cursor.pump(cn.peer)
	}
}

// received handles one frame: bounded before it is decoded, applied, and only
// then counted for the ack (I3).
func (c *Core) received(ev Received) {
	cn := c.conns[ev.Conn]
	if cn == nil {
		return // a late event of a connection that is gone
	}
	f, err := decodeFrame(ev.Data)
	if err != nil {
		c.reject(cn, "envelope", err)
		return
	}
	if f.number != cn.got+1 {
		c.reject(cn, "number", fmt.Errorf("frame %d after %d", f.number, cn.got))
		return
	}
	if f.kind != kindHello && cn.peer == nil {
		c.reject(cn, "order", fmt.Errorf("%s before hello", f.kind))
		return
	}
	cn.heardAt = c.now
	c.countIn(cn, f.kind, len(ev.Data))
	r := &reader{b: f.payload}
	r.clock = int64(r.u64())
	c.clockOf(cn, r.clock)
	if err := c.dispatch(cn, f.kind, r); err != nil {
		c.reject(cn, "payload", fmt.Errorf("%s: %w", f.kind, err))
		return
	}
	if c.conns[cn.id] == nil {
		return // hung up on meanwhile
	}
	cn.got = f.number
	c.acks.planAck(cn, f.kind, len(ev.Data))
}

func (c *Core) countIn(cn *conn, k kind, bytes int) {
	switch {
	case k >= kinds:
		k = 0
	case k == kindPacked:
		k = kindSlots
	case k == kindSummary || k == kindDetails:
		k = kindDigest
	}
	if cn.peer != nil {
		count(&cn.peer.in[k], bytes)
	}
	count(&c.in[k], bytes)
}

// reject counts a frame no correct peer sends and hangs up.
func (c *Core) reject(cn *conn, cause string, err error) {
	c.stats.Rejected[cause]++
	c.log("warn", "frame rejected", "conn", uint64(cn.id), "cause", cause, "err", err)
	c.neighbours.hangup(cn, "rejected frame: "+cause)
}

// dispatch applies a payload. Unknown kinds are skipped and counted, so that
// meshes of mixed versions work.
func (c *Core) dispatch(cn *conn, k kind, r *reader) error {
	if r.err != nil {
		return r.err
	}
	switch k {
	case kindHello:
		return c.neighbours.hello(cn, r)
	case kindLoad:
		return c.loads.loadFrame(cn, r)
	case kindSlots:
		return c.cursor.slotsFrame(cn, r)
	case kindAck:
		return c.acks.ackFrame(cn, r)
	case kindDigest:
		return c.digests.digestFrame(cn, r)
	case kindWant:
		return c.serving.wantFrame(cn, r)
	case kindSnapshot:
		return c.repair.snapshotFrame(cn, r)
	case kindPredict:
		return c.predictions.predictFrame(cn, r)
	case kindIntent:
		return c.intents.intentFrame(cn, r)
	case kindPacked:
		return c.cursor.packedFrame(cn, r)
	case kindSummary:
		return c.summaries.summaryFrame(cn, r)
	case kindDetails:
		return c.summaries.detailsFrame(cn, r)
	case kindKeys:
		return c.keys.takeKeys(cn, r)
	case kindFragment:
		return c.fragment(cn, r)
	}
	c.stats.Skipped++
	return nil
}

// partial is a payload of which not all fragments came yet.
type partial struct {
	kind kind
	next int
	of   int
	body []byte
}

// fragment puts a long payload together; at most MessageBytes per connection.
func (c *Core) fragment(cn *conn, r *reader) error {
	k, i, n := kind(r.u8()), int(r.u16()), int(r.u16())
	if r.err != nil {
		return r.err
	}
	p := &cn.partial
	if i == 0 {
		*p = partial{kind: k, of: n}
	}
	if k != p.kind || n != p.of || i != p.next || i >= n || k == kindFragment || k == kindHello {
		return fmt.Errorf("fragment %d of %d out of order", i, n)
	}
	if len(p.body)+len(r.b) > c.lim.MessageBytes {
		return fmt.Errorf("message over %d bytes", c.lim.MessageBytes)
	}
	p.body = append(p.body, r.b...)
	p.next++
	if p.next < p.of {
		return nil
	}
	whole := &reader{b: p.body}
	*p = partial{}
	whole.clock = int64(whole.u64()) // of its start; the fragment's own is newer
	return c.dispatch(cn, k, whole)
}

// acks tells senders how far this peer has come, and hears it of others.
type acks struct {
	*base
	cursor *cursor
	loads  *loads
	repair *repair
}

// planAck decides when what was applied is told to the sender.
func (c *acks) planAck(cn *conn, k kind, bytes int) {
	cn.pending += bytes
	if k == kindAck {
		return
	}
	wait := int64(fastAckMs)
	switch {
	case cn.pending >= c.lim.BurstBytes/4:
		wait = urgentMs // the sender's window must not wait for the clock
	case cn.class == Bulk:
		wait = ackMs
	}
	if cn.ackDue == 0 || cn.ackDue > c.now+wait {
		cn.ackDue = c.now + wait
		c.wake(cn.ackDue)
	}
}

// acks sends what is due: one frame for both connections of a peer.
func (c *acks) sendDue() {
	for _, p := range c.order {
		fast := p.conns[Fast]
		due := int64(math.MaxInt64)
		for _, cn := range p.conns {
			if cn != nil && cn.ackDue != 0 {
				due = min(due, cn.ackDue)
			}
		}
		switch {
		case fast == nil || due == math.MaxInt64:
		case due > c.now:
			c.wake(due)
		default:
			c.sendAck(p, fast)
		}
	}
}

func (c *acks) sendAck(p *peer, fast *conn) {
	b := c.newBody(1 + Classes*16)
	n := len(b)
	b = append(b, 0)
	for _, cn := range p.conns {
		if cn == nil || cn.ackDue == 0 || cn.got == cn.acked {
			continue
		}
		b[n]++
		b = binary.LittleEndian.AppendUint64(b, cn.remote)
		b = binary.LittleEndian.AppendUint64(b, cn.got)
		cn.acked, cn.ackDue, cn.pending = cn.got, 0, 0
	}
	c.send(fast, kindAck, binary.AppendUvarint(b, uint64(c.loads.pause())), sentFrame{})
}

// ackFrame moves the cursors of what the peer has applied. Acks are heartbeats
// too.
func (c *acks) ackFrame(cn *conn, r *reader) error {
	c.state.JoinLoads(cn.peer.id, nil)
	for range r.u8() {
		link, number := Conn(r.u64()), r.u64()
		if r.err != nil {
			return r.err
		}
		of := c.conns[link]
		if of != nil && of.peer == nil {
			of.early = cn.peer
		}
		if of == nil || of.peer != cn.peer {
			continue // of a connection that is gone, or has no peer yet
		}
		if number > of.sent {
			return fmt.Errorf("ack of frame %d, sent %d", number, of.sent)
		}
		c.applied(of, number)
	}
	if r.err == nil && len(r.b) > 0 {
		cn.peer.grace = max(0, min(int64(r.uvarint()), maxSilenceMs)-heartbeatMs)
	}
	return r.err
}

// applied forgets the frames up to number.
func (c *acks) applied(cn *conn, number uint64) {
	i := 0
	for ; i < len(cn.inflight) && cn.inflight[i].number <= number; i++ {
		f := &cn.inflight[i]
		cn.unacked -= f.bytes
		cn.burst = max(0, cn.burst-f.bytes)
		if f.snapshot {
			cn.piece -= f.bytes
		}
	}
	if i == 0 {
		return
	}
	cn.inflight = append(cn.inflight[:0], cn.inflight[i:]...)
	cn.movedAt = c.now
	if !cn.met {
		cn.met = true
		c.repair.canAsk()
	}
	switch {
	case cn.class == Bulk:
		c.cursor.pump(cn.peer)
	case cn.peer.needFull && c.fastRoom(cn):
		c.loads.sendFullLoads(cn.peer)
	}
}
