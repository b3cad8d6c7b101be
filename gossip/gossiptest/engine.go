package gossiptest

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// Engine makes the batches of one stream.
type Engine struct {
	Stream crdt.StreamID
	Epoch  uint64

	net  *Net
	next uint64
}

// Engine starts an engine with an empty log.
func (n *Net) Engine(url string) *Engine {
	return &Engine{Stream: crdt.NewStreamID(url, 0), Epoch: uint64(n.now), net: n}
}

// Restart begins a new incarnation.
func (e *Engine) Restart() { e.Epoch, e.next = uint64(e.net.now), 0 }

// Emit makes the next k batches.
func (e *Engine) Emit(k int) []crdt.Slot {
	slots := make([]crdt.Slot, k)
	for i := range slots {
		e.next++
		slots[i] = crdt.Slot{Seq: e.next, TS: e.net.now*1000 + int64(i), Body: e.body()}
	}
	return slots
}

// Ingest lets a node take batches from the engine, as first or second owner.
func (e *Engine) Ingest(x *Node, first bool, slots ...crdt.Slot) {
	e.apply(x, gossip.Ingested{Slots: slots, First: first})
}

// Lose lets a node declare slots lost, as first owner.
func (e *Engine) Lose(x *Node, lost ...crdt.Span) {
	e.apply(x, gossip.Ingested{Lost: lost, First: true})
}

func (e *Engine) apply(x *Node, ev gossip.Ingested) {
	if !x.Alive {
		return
	}
	ev.Stream, ev.Epoch, ev.ReceivedAt = e.Stream, e.Epoch, e.net.now
	x.State.Apply(&crdt.Delta{Stream: e.Stream, Epoch: e.Epoch, Anchor: 1, Slots: ev.Slots, Lost: ev.Lost}, e.net.now)
	e.net.step(x, ev)
}
func (e *Engine) body() []byte { return []byte{byte(e.net.rng.Uint32())} }
