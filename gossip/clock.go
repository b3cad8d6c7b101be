package gossip

import "github.com/banyan-llm/banyan/crdt"

// maxClock bounds a sender's clock: some 8,900 years of ms.
const maxClock = 1 << 48

// clockSet takes up what the wall clock was set to.
func (c *Core) clockSet(aheadMs int64) {
	c.ahead = aheadMs
	c.state.ClockSet(aheadMs)
}

// wall is the time by the wall clock, ms. It is for what machines compare:
// frames are stamped with it, so that a clock that is off shows.
func (c *Core) wall() int64 { return c.now + c.ahead }

// clockOf notes the sender's clock of a frame. Frames come in the order they
// were stamped in: where the stamps run back the sender's clock was set back,
// and what was learned of it is void. One that was set forward needs no care,
// the smallest difference counts.
func (c *Core) clockOf(cn *conn, sent int64) {
	if sent < 0 || sent > maxClock {
		return
	}
	if sent < cn.clock {
		cn.offset = crdt.ClockOffset{}
	}
	cn.clock = sent
	cn.offset.Add(sent, c.now)
	if cn.class == Fast && cn.peer != nil {
		cn.peer.viewAt = max(cn.peer.viewAt, c.now-cn.delay(c.now))
	}
}

// delay is how long the latest frame was on its way, beyond the shortest way,
// ms.
func (cn *conn) delay(now int64) int64 { return cn.offset.Age(cn.clock, now) }

// viewAge is how old what this peer knows of p is, ms.
func (c *Core) viewAge(p *peer) int64 { return max(0, c.now-p.viewAt) }
