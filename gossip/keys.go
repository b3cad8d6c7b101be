package gossip

import (
	"encoding/binary"
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
)

// maxAskedKeys bounds the facts of one keys frame.
const maxAskedKeys = 1024

// Modes of a keys frame.
const (
	keysAsk = iota
	keysTell
)

// keyRepair makes linked keys equal where facts are.
type keyRepair struct {
	*base
	serving *serving
}

// compareKeys heals linked facts: where facts are equal and keys are not, the
// side that linked more (of two alike the larger XOR) tells what it linked
// them by, and each asks for the keys of facts that have none here: the other
// knows them whatever became of the parent. It is asked again with the next
// digest; nothing is remembered.
func (c *keyRepair) compareKeys(p *peer, id crdt.StreamID, mine, theirs *crdt.Digest) {
	ours, other := &mine.Base, &theirs.Base
	if mine.Context.Floor != theirs.Context.Floor || ours.Linked == other.Linked && ours.KeyXOR == other.KeyXOR {
		return
	}
	c.stats.KeyMismatches++
	bulk := p.conns[Bulk]
	if !c.room(bulk) {
		return
	}
	less := ours.Linked < other.Linked || ours.Linked == other.Linked && ours.KeyXOR < other.KeyXOR
	if !less {
		if hints := c.state.Hints(id, mine.Context.Epoch); len(hints) > 0 {
			c.serving.reply(bulk, &crdt.Delta{Stream: id, Epoch: mine.Context.Epoch, Anchor: mine.Context.Anchor, Hints: hints}, 0)
		}
	}
	c.askKeys(bulk, id, mine.Context.Epoch)
}

// askKeys asks for the keys of facts that have none here.
func (c *keyRepair) askKeys(bulk *conn, id crdt.StreamID, epoch uint64) {
	if !c.room(bulk) {
		return
	}
	handles := c.state.Unlinked(id, epoch)
	if len(handles) == 0 {
		return
	}
	b := c.keysBody(keysAsk, id, epoch, min(len(handles), maxAskedKeys))
	for _, h := range handles[:min(len(handles), maxAskedKeys)] {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	c.stats.KeysAsked++
	c.send(bulk, kindKeys, b, sentFrame{})
}

// tellKeys answers with the keys of those facts that have one here.
func (c *keyRepair) tellKeys(bulk *conn, id crdt.StreamID, epoch uint64, handles []uint64) {
	if !c.room(bulk) {
		return
	}
	told := c.state.Keys(id, epoch, handles)
	if len(told) == 0 {
		return
	}
	b := c.keysBody(keysTell, id, epoch, len(told))
	for i := range told {
		b = binary.LittleEndian.AppendUint64(b, told[i].Handle)
		b = binary.LittleEndian.AppendUint64(b, told[i].Parent)
		b = append(b, byte(len(told[i].Keys)))
		for _, key := range told[i].Keys {
			b = binary.LittleEndian.AppendUint64(b, key)
		}
	}
	c.send(bulk, kindKeys, b, sentFrame{})
}

func (c *keyRepair) keysBody(mode byte, id crdt.StreamID, epoch uint64, n int) []byte {
	b := putString(append(c.newBody(64+8*n), mode), string(id))
	return putU32(binary.LittleEndian.AppendUint64(b, epoch), uint32(n))
}

// keysFrame is a decoded keys frame.
type keysFrame struct {
	mode    byte
	stream  crdt.StreamID
	epoch   uint64
	handles []uint64     // asked for
	told    []crdt.Keyed // told
}

func decodeKeys(r *reader) (f keysFrame, err error) {
	f.mode, f.stream, f.epoch = r.u8(), r.stream(), r.u64()
	n := r.count(8)
	if n > maxAskedKeys {
		return f, fmt.Errorf("keys of %d facts", n)
	}
	switch f.mode {
	case keysAsk:
		f.handles = r.words(n)
	case keysTell:
		for range n {
			k := crdt.Keyed{Handle: r.u64(), Parent: r.u64()}
			k.Keys = r.words(int(r.u8()))
			f.told = append(f.told, k)
		}
	default:
		return f, fmt.Errorf("keys of mode %d", f.mode)
	}
	return f, r.err
}

// words takes n words.
func (r *reader) words(n int) []uint64 {
	b := r.bytes(8 * n)
	out := make([]uint64, len(b)/8)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return out
}

// takeKeys answers a question, or links what was asked for and, as long as
// answers bring news, asks for the next ones.
func (c *keyRepair) takeKeys(cn *conn, r *reader) error {
	f, err := decodeKeys(r)
	if err != nil {
		return err
	}
	bulk := cn.peer.conns[Bulk]
	if f.mode == keysAsk {
		c.tellKeys(bulk, f.stream, f.epoch, f.handles)
		return nil
	}
	linked := c.state.Link(f.stream, f.epoch, f.told, c.now)
	if c.stats.KeysLinked += uint64(linked); linked > 0 {
		c.askKeys(bulk, f.stream, f.epoch)
	}
	return nil
}
