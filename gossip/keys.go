package gossip

import "github.com/banyan-llm/banyan/crdt"

// hinter is a State that knows keys of blocks which are no facts, learned from
// answers. A State need not be one.
type hinter interface {
	// Hints lists such keys of a stream's incarnation, a bounded number.
	Hints(id crdt.StreamID, epoch uint64) []crdt.Hint
}

// compareKeys heals linked facts: where facts are equal and keys are not, the
// side that linked more (of two alike the larger XOR) tells what it linked
// them by. It is asked again with the next digest; nothing is remembered.
func (c *Core) compareKeys(p *peer, id crdt.StreamID, mine, theirs *crdt.Digest) {
	ours, other := &mine.Base, &theirs.Base
	if mine.Context.Floor != theirs.Context.Floor || ours.Linked == other.Linked && ours.KeyXOR == other.KeyXOR {
		return
	}
	c.stats.KeyMismatches++
	h, ok := c.state.(hinter)
	bulk := p.conns[Bulk]
	if !ok || ours.Linked < other.Linked || ours.Linked == other.Linked && ours.KeyXOR < other.KeyXOR || !c.room(bulk) {
		return
	}
	if hints := h.Hints(id, mine.Context.Epoch); len(hints) > 0 {
		c.reply(bulk, &crdt.Delta{Stream: id, Epoch: mine.Context.Epoch, Anchor: mine.Context.Anchor, Hints: hints}, 0)
	}
}
