package gossip

import (
	"fmt"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

const loadsPerFrame = 4096

// loadChanged plans a load frame: a dispatch goes at once unless one went
// within the last ms, anything else within 10 ms; in a mesh of more than 16
// peers both wait longer, so that frames to all stay as few as 15 peers get.
func (c *loads) loadChanged(urgent bool) {
	due := c.now + dirtyMs*c.crowd()
	if urgent {
		due = max(c.now, c.loadSent+urgentMs*c.crowd())
	}
	if c.loadDue == 0 || due < c.loadDue {
		c.loadDue = due
	}
	if c.loadDue <= c.now {
		c.flushLoads()
		return
	}
	c.wake(c.loadDue)
}

// flushLoads sends what is dirty to all.
func (c *loads) flushLoads() {
	c.loadDue, c.loadSent = 0, c.now
	c.scratch = c.state.OwnLoads(c.scratch[:0], true)
	if len(c.scratch) > 0 { // all hear from this peer now
		c.heartbeatDue = c.now + heartbeatMs
		c.wake(c.heartbeatDue)
	}
	for loads := range slices.Chunk(c.scratch, loadsPerFrame) {
		body := crdt.AppendLoads(append(c.newBody(64*len(loads)), 0), loads)
		for _, p := range c.order {
			c.sendLoads(p, body)
		}
	}
}

// sendLoads sends a load frame unless the peer does not keep up; then the
// whole table follows once it does.
func (c *loads) sendLoads(p *peer, body []byte) {
	fast := p.conns[Fast]
	switch {
	case fast == nil:
	case !c.fastRoom(fast):
		p.needFull = true
	case p.needFull:
		c.sendFullLoads(p)
	default:
		c.send(fast, kindLoad, body, sentFrame{})
	}
}

// sendFullLoads sends all own registers, absolute.
func (c *loads) sendFullLoads(p *peer) {
	fast := p.conns[Fast]
	if fast == nil {
		return
	}
	p.needFull = false
	loads := c.state.OwnLoads(nil, false)
	for first := true; first || len(loads) > 0; first = false {
		n := min(len(loads), loadsPerFrame)
		c.send(fast, kindLoad, crdt.AppendLoads(append(c.newBody(64*n), 1), loads[:n]), sentFrame{})
		loads = loads[n:]
	}
}

// loadFrame joins a peer's own registers; an empty frame says it is alive.
func (c *loads) loadFrame(cn *conn, r *reader) error {
	r.u8() // flags: 1 means the whole table; absolute values need no difference
	loads, err := readLoads(r)
	if err != nil {
		return fmt.Errorf("loads: %w", err)
	}
	c.state.JoinLoads(cn.peer.id, loads)
	return nil
}
