package gossip

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Flags of a section of a packed frame.
const sectionTold = 1 // epoch and anchor follow; else those of the stream's last section hold

// batch is one frame's worth of a stream, cut once a Step: peers in step with
// each other get the same bytes.
type batch struct {
	epoch  uint64
	anchor uint64
	since  int64
	slots  crdt.Spans // asked for
	lost   crdt.Spans
	sent   crdt.Spans // found
	delta  crdt.Delta
	packed []byte
}

// is reports whether the batch is what o asks for.
func (k *batch) is(o *owed) bool {
	return k != nil && k.epoch == o.epoch && k.since == o.since && sameSet(k.slots, o.slots) && sameSet(k.lost, o.lost)
}

func sameSet(a, b crdt.Spans) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// empty reports whether there is nothing to send.
func (k *batch) empty() bool { return len(k.delta.Slots) == 0 && len(k.delta.Lost) == 0 }

// pushPacked cuts one frame of what p is owed, of as many streams as fit. It is
// never too long to send, or what it names would stay unknown: one batch alone
// may be longer than SlotsBytes, and no batch is over crdt.MaxSlotBytes.
func (c *cursor) pushPacked(p *peer, bulk *conn) {
	var held []sentPart
	var cuts []*batch
	size := 0
	for len(p.queue) > 0 && size < c.lim.SlotsBytes {
		id := p.queue[0]
		o := p.owed[id]
		if !o.empty() {
			k := c.batchOf(id, o)
			if size > 0 && size+len(k.packed) > c.lim.SlotsBytes {
				break
			}
			if !k.empty() {
				held = append(held, sentPart{stream: id, epoch: o.epoch, slots: k.sent, lost: slices.Clone(o.lost), since: o.since})
				cuts = append(cuts, k)
				size += len(k.packed) + 16
				c.stats.Pushed += uint64(len(k.sent))
			}
			o.settle(k)
		}
		if o.empty() {
			delete(p.owed, id)
			p.queue = p.queue[1:]
		}
	}
	if len(cuts) == 0 {
		return
	}
	b := binary.AppendUvarint(c.newBody(size+64), uint64(len(cuts)))
	for i, k := range cuts {
		b = c.section(b, bulk, held[i].stream, k)
	}
	c.sendAs(bulk, kindPacked, kindSlots, b, sentFrame{parts: held})
}

// section appends what a cut holds.
func (c *cursor) section(b []byte, bulk *conn, id crdt.StreamID, k *batch) []byte {
	at := len(b)
	b, x := bulk.names.put(append(b, 0), id)
	if x.epoch != k.epoch || x.anchor != k.anchor {
		b[at] |= sectionTold
		b = binary.AppendUvarint(binary.AppendUvarint(b, k.epoch), k.anchor)
		x.epoch, x.anchor = k.epoch, k.anchor
	}
	b = binary.AppendUvarint(b, uint64(max(0, c.now-k.since)))
	return append(b, k.packed...)
}

// settle takes off what a cut brought to be sent.
func (o *owed) settle(k *batch) {
	if len(k.sent) == 0 {
		o.slots = nil // fell out of the ring: its digest shows what it lacks
	} else {
		o.slots = o.slots.Minus(crdt.Spans{{From: 0, To: k.sent[len(k.sent)-1].To}})
	}
	o.lost = nil
}

// batchOf returns one frame's worth of what is owed of a stream.
func (c *cursor) batchOf(id crdt.StreamID, o *owed) *batch {
	if k := c.cache[id]; k.is(o) {
		return k
	}
	k := &batch{epoch: o.epoch, anchor: c.digestOf(id).Context.Anchor, since: o.since, slots: slices.Clone(o.slots), lost: slices.Clone(o.lost)}
	k.delta = crdt.Delta{Stream: id, Epoch: k.epoch, Anchor: k.anchor, Lost: k.lost}
	if len(o.slots) > 0 {
		s := c.state.Slots(id, o.epoch, o.slots, c.lim.SlotsBytes)
		k.delta.Slots = s[:min(len(s), crdt.MaxPackedSlots)]
	}
	k.sent = crdt.SpansOf(k.delta.Slots)
	if !k.empty() {
		size := 32 + 16*len(k.lost)
		for i := range k.delta.Slots {
			size += 16 + len(k.delta.Slots[i].Body)
		}
		k.packed = crdt.AppendPacked(make([]byte, 0, size), k.delta.Slots, k.lost, c.wall()*1000)
	}
	c.cache[id] = k
	return k
}

// packedFrame joins pushes, section by section.
func (c *cursor) packedFrame(cn *conn, r *reader) error {
	for range min(r.uvarint(), uint64(len(r.b))) {
		d, age, err := takeSection(&cn.told, r)
		if err != nil {
			return fmt.Errorf("packed: %w", err)
		}
		if c.admits(d.Stream) {
			c.slotsCame(cn, &d, 0, age)
		}
		if c.conns[cn.id] == nil {
			return nil
		}
	}
	return r.err
}

// takeSection reads what section wrote.
func takeSection(told *naming, r *reader) (d crdt.Delta, age int64, err error) {
	flags := r.u8()
	x := told.take(r)
	if x == nil {
		return d, 0, r.err
	}
	if flags&sectionTold != 0 {
		x.epoch, x.anchor = r.uvarint(), r.uvarint()
	}
	age = int64(min(r.uvarint(), 1<<32))
	if r.err == nil && x.anchor > crdt.MaxSeq {
		r.fail(errShort)
	}
	if r.err != nil {
		return d, 0, r.err
	}
	d = crdt.Delta{Stream: x.stream, Epoch: x.epoch, Anchor: x.anchor}
	var rest []byte
	if d.Slots, d.Lost, rest, err = crdt.DecodePacked(r.b, r.clock*1000); err != nil {
		return d, 0, err
	}
	r.b = rest
	return d, age, nil
}
