package gossip_test

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// Engine makes the batches of one stream.
type Engine struct {
	Stream crdt.StreamID
	Epoch  uint64
	Calm   bool // never clears: the base does not shrink to nothing

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
	e.apply(x, first, crdt.Delta{Slots: slots})
}

// Lose lets a node declare slots lost, as first owner.
func (e *Engine) Lose(x *Node, lost ...crdt.Span) {
	e.apply(x, true, crdt.Delta{Lost: lost})
}

func (e *Engine) apply(x *Node, first bool, d crdt.Delta) {
	if !x.Alive {
		return
	}
	d.Stream, d.Epoch, d.Anchor = e.Stream, e.Epoch, 1
	x.State.Apply(&d, e.net.now)
	e.net.step(x, gossip.Ingested{Stream: d.Stream, Epoch: d.Epoch, Slots: crdt.SpansOf(d.Slots), Lost: d.Lost, ReceivedAt: e.net.now, First: first})
}

// body is a batch: mostly stores and removals of blocks that others follow,
// now and then a clear.
func (e *Engine) body() []byte {
	var b crdt.Builder
	handle := func() uint64 { return 1 + e.net.rng.Uint64N(handles) }
	op := crdt.Op{Tier: crdt.Tier(e.net.rng.UintN(crdt.Tiers)), Main: true, PerPage: 1}
	switch roll := e.net.rng.UintN(40); {
	case roll == 0 && !e.Calm:
		b.Clear()
	case roll < 12:
		b.Remove(op, []uint64{handle(), handle()})
	default:
		h := handle()
		op.HasParent, op.Parent = h > 1, h-1
		b.Store(op, []uint64{h, h + 1}, []uint64{h << 8, (h + 1) << 8})
	}
	body, err := b.Bytes()
	if err != nil {
		panic("invariant: " + err.Error())
	}
	return body
}

// handles is how many blocks an engine's batches are about.
const handles = 40
