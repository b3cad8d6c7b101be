package gossip

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// maxClock bounds a sender's clock: some 8,900 years of ms.
const maxClock = 1 << 48

const (
	clockMs    = 200   // between looks at how far the wall clock is off
	clockOffMs = 1_000 // further off than this nothing is predicted
)

// clockJudge finds out how far the wall clock is off.
type clockJudge struct {
	*base
	clockOff int64   // ms the wall clock is ahead of most peers'; 0: not by much
	clockDue int64   // when that is looked at next
	leads    []int64 // scratch
}

// clockSet takes up what the wall clock was set to.
func (c *clockJudge) clockSet(aheadMs int64) {
	c.ahead = aheadMs
	c.state.ClockSet(aheadMs)
	c.judgeClock()
}

// judgeClock stops this peer's predictions while its wall clock is over a second
// off the median of the live peers', its own among them: the others would reject
// what it predicts, or it what they do.
func (c *clockJudge) judgeClock() {
	c.clockDue = c.now + clockMs
	c.leads = append(c.leads[:0], 0)
	for _, p := range c.order {
		if fast := p.conns[Fast]; p.member && fast != nil && fast.clock != 0 {
			c.leads = append(c.leads, -fast.offset.Value()-c.ahead)
		}
	}
	slices.Sort(c.leads)
	n := len(c.leads)
	off := -(c.leads[(n-1)/2] + c.leads[n/2]) / 2
	if max(off, -off) <= clockOffMs {
		off = 0
	}
	was := c.clockOff
	c.clockOff = off
	if (was == 0) != (off == 0) {
		c.state.Predicting(off == 0)
		if off != 0 {
			c.log("warn", "this host's clock is off the clocks of the other peers: no cached blocks are predicted until it is right; check NTP", "ahead_ms", off)
		}
	}
}

// wall is the time by the wall clock, ms. It is for what machines compare:
// frames are stamped with it, so that a clock that is off shows.
func (c *base) wall() int64 { return c.now + c.ahead }

// clockOf notes the sender's clock of a frame. Frames come in the order they
// were stamped in: where the stamps run back the sender's clock was set back,
// and what was learned of it is void. One that was set forward needs no care,
// the smallest difference counts.
func (c *base) clockOf(cn *conn, sent int64) {
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

// viewAge is how old what this peer knows of p is, ms. Silence that p announced
// is no age: while p has nothing to tell, what is known of it is all there is.
func (c *base) viewAge(p *peer) int64 { return max(0, c.now-p.viewAt-p.grace) }
