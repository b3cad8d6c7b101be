package gossip

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// ask is a peer's want waiting for room on its bulk connection.
type ask struct {
	mode   byte
	stream crdt.StreamID
	ctx    crdt.Context
}

// cutting is a snapshot being cut, with those who wait for it; before its turn
// it is queued.
type cutting struct {
	stream crdt.StreamID
	askers []*peer
	begun  bool
}

// transfer is a snapshot on its way to one peer.
type transfer struct {
	stream crdt.StreamID
	id     uint64
	head   [][]byte // encoded header in chunks, shared between peers
	pieces [][]byte
	next   int
	total  int
}

// headChunk is the size of the pieces a snapshot's header goes in, as small as
// its other pieces.
const headChunk = 64 << 10

// serving gives what other peers want: slots, keys and snapshots.
type serving struct {
	*base
	cursor    *cursor
	cuts      []*cutting // in order of asking
	transfers int        // snapshots being sent
	transfer  uint64
}

// wantFrame queues a want; the bound holds a peer that asks without waiting.
func (c *serving) wantFrame(cn *conn, r *reader) error {
	a := ask{mode: r.u8(), stream: r.stream()}
	ctx, err := readContext(r)
	if err != nil {
		return fmt.Errorf("want: %w", err)
	}
	a.ctx = ctx
	p := cn.peer
	if len(p.asks) >= 2*c.lim.Wants {
		c.stats.Dropped["ask"]++
		return nil
	}
	p.asks = append(p.asks, a)
	c.cursor.pump(p)
	return nil
}

// answer serves one want: from the ring if it reaches back, else by snapshot.
func (c *serving) answer(p *peer, bulk *conn, a ask) {
	c.stats.Answered++
	if _, ok := c.state.Digest(a.stream); !ok {
		c.reply(bulk, &crdt.Delta{Stream: a.stream}, flagAnswer)
		return
	}
	if a.mode == wantDelta {
		if d, ok := c.state.Since(a.stream, &a.ctx, c.lim.SlotsBytes); ok {
			d.Stream = a.stream
			c.reply(bulk, &d, flagAnswer)
			return
		}
	}
	c.reply(bulk, &crdt.Delta{Stream: a.stream}, flagAnswer|flagLater)
	c.queueCut(p, a.stream)
}

func (c *serving) reply(bulk *conn, d *crdt.Delta, flags uint8) {
	c.send(bulk, kindSlots, c.cursor.slotsBody(d, flags, 0), sentFrame{})
}

// queueCut lets p wait for a snapshot of a stream; several wait for one cut.
// Who asks again for one that is being sent gave up what came of it.
func (c *serving) queueCut(p *peer, id crdt.StreamID) {
	for _, t := range p.sending {
		if t.stream == id {
			c.transfer++
			t.id, t.next = c.transfer, 0
			return
		}
	}
	for _, k := range c.cuts {
		if k.stream == id {
			if !slices.Contains(k.askers, p) {
				k.askers = append(k.askers, p)
			}
			return
		}
	}
	c.cuts = append(c.cuts, &cutting{stream: id, askers: []*peer{p}})
	c.nextCuts()
}

// nextCuts begins cuts while fewer than Limits.Cuts are cut or sent.
func (c *serving) nextCuts() {
	busy := c.transfers
	for _, k := range c.cuts {
		if k.begun {
			busy++
		}
	}
	for _, k := range c.cuts {
		if busy >= c.lim.Cuts {
			return
		}
		if !k.begun {
			k.begun = true
			busy++
			c.emit(CutSnapshot{Stream: k.stream})
		}
	}
}

// snapshotCut starts sending a cut snapshot to those who asked for it.
func (c *serving) snapshotCut(ev SnapshotCut) {
	i := slices.IndexFunc(c.cuts, func(k *cutting) bool { return k.stream == ev.Stream && k.begun })
	if i < 0 {
		return
	}
	k := c.cuts[i]
	c.cuts = slices.Delete(c.cuts, i, i+1)
	var t transfer
	if ev.Snapshot != nil {
		t = c.newTransfer(ev.Snapshot)
	}
	for _, p := range k.askers {
		switch bulk := p.conns[Bulk]; {
		case bulk == nil || p.dead:
		case ev.Snapshot == nil:
			c.reply(bulk, &crdt.Delta{Stream: ev.Stream}, flagAnswer)
		default:
			mine := t
			p.sending = append(p.sending, &mine)
			c.transfers++
			c.cursor.pump(p)
		}
	}
	c.nextCuts()
}

func (c *serving) newTransfer(s *crdt.Snapshot) transfer {
	c.transfer++
	t := transfer{stream: s.Stream, id: c.transfer, pieces: s.Pieces}
	for chunk := range slices.Chunk(crdt.AppendSnapshot(nil, s), headChunk) {
		t.head = append(t.head, chunk)
		t.total += len(chunk)
	}
	for _, p := range s.Pieces {
		t.total += len(p)
	}
	return t
}

// sendPiece sends the next piece of the snapshot in turn.
func (c *serving) sendPiece(p *peer, bulk *conn) {
	t := p.sending[0]
	var data []byte
	if t.next < len(t.head) {
		data = t.head[t.next]
	} else {
		data = t.pieces[t.next-len(t.head)]
	}
	n := len(t.head) + len(t.pieces)
	b := putString(c.newBody(64+len(data)), string(t.stream))
	b = binary.LittleEndian.AppendUint64(b, t.id)
	for _, v := range []int{t.next, n, len(t.head)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(t.total))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, data...)
	c.send(bulk, kindSnapshot, b, sentFrame{snapshot: true})
	if t.next++; t.next == n {
		p.sending = p.sending[1:]
		c.transfers--
		c.stats.SnapshotsSent++
		c.nextCuts()
	}
}

// stopSending ends what was being sent to a peer whose bulk connection ended.
func (c *serving) stopSending(p *peer) {
	c.transfers -= len(p.sending)
	p.sending, p.asks = nil, nil
	for _, k := range c.cuts {
		k.askers = slices.DeleteFunc(k.askers, func(q *peer) bool { return q == p })
	}
	c.cuts = slices.DeleteFunc(c.cuts, func(k *cutting) bool { return !k.begun && len(k.askers) == 0 })
	c.nextCuts()
}
