package gossip

import (
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
)

// intents tells and takes what operators said.
type intents struct{ *base }

// intentChanged tells all what an operator said here.
func (c *intents) intentChanged() {
	all := c.state.Intents()
	for _, p := range c.order {
		c.sendIntents(p, all)
	}
}

func (c *intents) sendIntents(p *peer, all map[crdt.StreamID]crdt.Intent) {
	if fast := p.conns[Fast]; fast != nil && len(all) > 0 {
		c.send(fast, kindIntent, crdt.AppendIntents(c.newBody(64*len(all)), all), sentFrame{})
	}
}

func (c *intents) intentFrame(cn *conn, r *reader) error {
	intents, err := readIntents(r)
	if err != nil {
		return fmt.Errorf("intents: %w", err)
	}
	c.joinIntents(cn.peer, intents)
	return nil
}

// joinIntents joins and, only if that changed something here, passes it on:
// an operator's word crosses a broken link at once, and the relaying ends by
// itself (I4).
func (c *intents) joinIntents(from *peer, intents map[crdt.StreamID]crdt.Intent) {
	if len(intents) == 0 || !c.state.JoinIntents(intents) {
		return
	}
	for _, p := range c.order {
		if p != from {
			c.sendIntents(p, intents)
		}
	}
}
