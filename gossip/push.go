package gossip

import (
	"fmt"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// local is what a Core remembers of a stream besides its state.
type local struct {
	epoch     uint64
	arrived   crdt.Spans // slots that an owner sent to all, lately
	lost      crdt.Spans // and losses it declared to all
	fills     []fill     // slots ingested as second owner, waiting for the first's
	snapshots []int64    // when snapshots of it were joined, within the last minute
}

// fill is what the second owner will send if the first does not.
type fill struct {
	epoch    uint64
	slots    crdt.Spans
	lost     crdt.Spans
	received int64
}

type fillDue struct {
	at     int64
	stream crdt.StreamID
}

// maxArrived bounds the spans remembered of what owners sent.
const maxArrived = 64

// cursor sends each peer the slots it lacks, and takes those that come.
type cursor struct {
	*base
	digests   *digests
	serving   *serving
	readiness *readiness
	repair    *repair
	streams   map[crdt.StreamID]*local
	fills     []fillDue                // second owner's slots, by time
	cache     map[crdt.StreamID]*batch // of this Step
	pushDue   int64                    // when own slots must go; 0 none wait
	pushedAt  int64
}

func (c *cursor) localOf(id crdt.StreamID) *local {
	l := c.streams[id]
	if l == nil {
		l = &local{}
		c.streams[id] = l
	}
	return l
}

// at moves the record to an epoch; false if it is of a later one already.
func (l *local) at(epoch uint64) bool {
	if epoch > l.epoch {
		l.epoch, l.arrived, l.lost = epoch, nil, nil
	}
	return epoch == l.epoch
}

// ingested sends own slots on: the first owner at once, the second what has
// not come from the first within 50 ms.
func (c *cursor) ingested(ev Ingested) {
	l := c.localOf(ev.Stream)
	if !l.at(ev.Epoch) {
		return
	}
	if len(ev.Slots)+len(ev.Lost) == 0 {
		c.opened(ev)
		return
	}
	f := fill{epoch: ev.Epoch, slots: ev.Slots, lost: crdt.Spans(nil).Union(ev.Lost), received: ev.ReceivedAt}
	if f.received <= 0 || f.received > c.now {
		f.received = c.now
	}
	if ev.First {
		c.owe(ev.Stream, l, f)
		c.planPush()
	} else {
		l.fills = append(l.fills, f)
		c.fills = append(c.fills, fillDue{at: c.now + fillMs, stream: ev.Stream})
		c.wake(c.now + fillMs)
	}
	if d, ok := c.state.Digest(ev.Stream); ok {
		c.repair.noteHoles(ev.Stream, &d.Context)
	}
}

// opened tells all peers at once of an incarnation of which no slot came yet:
// what they hold of the one before is gone. Who misses it learns of it by digest.
func (c *cursor) opened(ev Ingested) {
	d := crdt.Delta{Stream: ev.Stream, Epoch: ev.Epoch}
	for _, p := range c.order {
		if bulk := p.conns[Bulk]; bulk != nil {
			c.serving.reply(bulk, &d, 0)
		}
	}
}

// planPush sends what is owed at once, or with what comes within pushMs of the
// last push: under load a frame then carries slots of many streams.
func (c *cursor) planPush() {
	if c.now >= c.pushedAt+pushMs {
		c.pushAll()
		return
	}
	c.pushDue = c.pushedAt + pushMs
	c.wake(c.pushDue)
}

func (c *cursor) pushAll() {
	c.pushDue, c.pushedAt = 0, c.now
	c.pumpAll()
}

// fillIn owes what the first owner did not send in time.
func (c *cursor) fillIn() {
	i := 0
	for ; i < len(c.fills) && c.fills[i].at <= c.now; i++ {
		l := c.streams[c.fills[i].stream]
		f := l.fills[0]
		l.fills = l.fills[1:]
		if l.epoch == f.epoch {
			c.owe(c.fills[i].stream, l, f)
		}
	}
	c.fills = c.fills[i:]
	if i > 0 {
		c.pumpAll()
	}
	if len(c.fills) > 0 {
		c.wake(c.fills[0].at)
	}
}

// owe notes for every peer what it is to be sent, without what some owner has
// sent to all already.
func (c *cursor) owe(id crdt.StreamID, l *local, f fill) {
	f.slots, f.lost = f.slots.Minus(l.arrived), f.lost.Minus(l.lost)
	if len(f.slots) == 0 && len(f.lost) == 0 {
		return
	}
	for _, p := range c.order {
		c.oweTo(p, id, f)
	}
}

func (c *cursor) oweTo(p *peer, id crdt.StreamID, f fill) {
	o := p.owed[id]
	switch {
	case o == nil:
		o = &owed{epoch: f.epoch, since: f.received}
		p.owed[id] = o
		p.queue = append(p.queue, id)
	case o.epoch > f.epoch:
		return
	case o.epoch < f.epoch:
		*o = owed{epoch: f.epoch, since: f.received}
	}
	o.slots, o.lost = o.slots.Union(f.slots), o.lost.Union(f.lost)
	o.since = min(o.since, f.received)
	if len(o.slots) > c.lim.Spans || len(o.lost) > c.lim.Spans {
		c.stats.Dropped["owed"]++
		o.slots, o.lost = nil, nil // its next digest shows what it lacks
	}
}

// reowe puts back what a broken bulk connection had not got acknowledged.
func (c *cursor) reowe(p *peer, cn *conn) {
	for i := range cn.inflight {
		for _, f := range cn.inflight[i].parts {
			c.oweTo(p, f.stream, fill{epoch: f.epoch, slots: f.slots, lost: f.lost, received: f.since})
		}
	}
	cn.inflight = nil
}

// arrived takes what an owner sent to all off everybody's list: nobody
// relays it (I4).
func (c *cursor) arrived(id crdt.StreamID, d *crdt.Delta) {
	l := c.localOf(id)
	if d.Epoch > l.epoch && c.digestOf(id).Context.Epoch != d.Epoch {
		return // the state did not take that incarnation
	}
	if !l.at(d.Epoch) {
		return
	}
	slots := crdt.SpansOf(d.Slots)
	l.arrived, l.lost = l.arrived.Union(slots), l.lost.Union(d.Lost)
	l.arrived = l.arrived[max(0, len(l.arrived)-maxArrived):]
	l.lost = l.lost[max(0, len(l.lost)-maxArrived):]
	for _, p := range c.order {
		p.settle(id, d.Epoch, slots, d.Lost)
	}
}

// settle takes off what a peer need not be sent any more.
func (p *peer) settle(id crdt.StreamID, epoch uint64, slots, lost crdt.Spans) {
	if o := p.owed[id]; o != nil && o.epoch == epoch {
		o.slots, o.lost = o.slots.Minus(slots), o.lost.Minus(lost)
	}
}

func (c *cursor) pumpAll() {
	for _, p := range c.order {
		c.pump(p)
	}
}

// pump sends on the bulk connection while its window allows: own slots first,
// then answers to wants, then pieces of snapshots.
func (c *cursor) pump(p *peer) {
	bulk := p.conns[Bulk]
	for c.pushDue <= c.now && c.room(bulk) && len(p.queue) > 0 {
		c.pushPacked(p, bulk)
	}
	for c.room(bulk) && len(p.asks) > 0 {
		a := p.asks[0]
		p.asks = p.asks[1:]
		c.serving.answer(p, bulk, a)
	}
	for c.room(bulk) && bulk.piece < c.lim.SnapshotBytes && len(p.sending) > 0 {
		c.serving.sendPiece(p, bulk)
	}
}

// Flags of a slots frame.
const (
	flagAnswer = 1 << iota // answers a want: not sent to all
	flagLater              // an answer without content: a snapshot follows
)

func (c *cursor) slotsBody(d *crdt.Delta, flags uint8, age int64) []byte {
	size := 64
	for i := range d.Slots {
		size += 32 + len(d.Slots[i].Body)
	}
	b := append(c.newBody(size), flags)
	b = putU32(b, clampU32(age))
	return crdt.AppendDelta(b, d)
}

// slotsFrame joins slots and learns from them.
func (c *cursor) slotsFrame(cn *conn, r *reader) error {
	flags, age := r.u8(), int64(r.u32())
	d, err := readDelta(r)
	if err != nil {
		return fmt.Errorf("slots: %w", err)
	}
	if !c.admits(d.Stream) {
		return nil
	}
	c.slotsCame(cn, &d, flags, age)
	return nil
}

// slotsCame joins what came of one stream and learns from it.
func (c *cursor) slotsCame(cn *conn, d *crdt.Delta, flags uint8, age int64) {
	p := cn.peer
	var out crdt.Outcome
	if len(d.Slots) > 0 || len(d.Lost) > 0 || len(d.Hints) > 0 || d.Epoch > c.digestOf(d.Stream).Context.Epoch {
		out = c.state.Apply(d, c.now)
		c.stats.Applied += uint64(out.NewSlots)
		c.stats.Known += uint64(len(d.Slots) - min(len(d.Slots), out.NewSlots))
	}
	if flags&flagAnswer == 0 {
		c.arrived(d.Stream, d)
		if out.NewSlots > 0 {
			c.observe(p, age+cn.delay(c.now))
		}
	} else {
		p.settle(d.Stream, d.Epoch, crdt.SpansOf(d.Slots), d.Lost)
	}
	c.repair.learned(p, d.Stream, flags, &out)
}

// observe reports how long a slot took from an owner's receipt to here.
func (c *cursor) observe(p *peer, ms int64) {
	c.emit(Observed{Peer: p.id, DelayMs: float64(ms)})
	if ms > behindMs {
		c.readiness.ready.lateAt = c.now
		c.wake(c.now)
	}
}

// wants reports whether this peer wants to know a stream.
func (c *base) wants(id crdt.StreamID) bool { return c.cfg.Wants == nil || c.cfg.Wants(id) }

// admits bounds the streams that the network may open.
func (c *cursor) admits(id crdt.StreamID) bool {
	if !c.wants(id) {
		c.stats.Dropped["unwanted"]++
		return false
	}
	if _, ok := c.streams[id]; ok {
		return true
	}
	if len(c.streams) >= c.lim.Streams {
		c.pruneStreams()
	}
	if id == "" || len(c.streams) >= c.lim.Streams {
		c.stats.Dropped["streams"]++
		return false
	}
	c.localOf(id)
	return true
}

// forgetUnwanted drops what is remembered of streams that this peer does not
// want to know any more, and what was asked of them: a peer that joins would
// wait for the answer. O(streams).
func (c *cursor) forgetUnwanted() {
	if c.cfg.Wants == nil {
		return
	}
	for _, pl := range slices.Clone(c.repair.pullOrder) {
		if !pl.joining && !c.wants(pl.stream) {
			c.repair.endPull(pl)
		}
	}
	for id, l := range c.streams {
		if len(l.fills) == 0 && !c.wants(id) {
			delete(c.streams, id)
			delete(c.digests.divergent, id)
		}
	}
}

// pruneStreams drops the records of streams that the state has forgotten.
func (c *cursor) pruneStreams() {
	for id, l := range c.streams {
		if _, ok := c.state.Digest(id); !ok && len(l.fills) == 0 {
			delete(c.streams, id)
		}
	}
}
