package gossip

import (
	"cmp"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

const (
	// beats is how many heartbeats go every heartbeatMs at least: in a mesh of up
	// to 16 peers one to every other.
	beats = 15
	// maxSilenceMs bounds how long a peer may be silent towards another, and what
	// one may announce: three such times pass before the connection is given up.
	maxSilenceMs = 16 * heartbeatMs
)

// loads tells and takes loads, and the beats between them.
type loads struct {
	*base
	acks         *acks
	loadDue      int64 // when dirty registers must go; 0 not dirty
	loadSent     int64
	heartbeatDue int64
	scratch      []crdt.LoadEntry
	quiet        []*peer // scratch
}

// crowd is how many times the other peers make the beats of one heartbeatMs, at
// least 1 and at most 16: what goes to all goes so much less often.
func (c *loads) crowd() int64 {
	return int64(min(max(1, (len(c.order)+beats-1)/beats), maxSilenceMs/heartbeatMs))
}

// pause is how long this peer may be silent towards another, ms.
func (c *loads) pause() int64 { return c.crowd() * heartbeatMs }

// heartbeat speaks to those who heard nothing from this peer for longest, so
// that everybody hears something every pause.
//
// What changed in the load table and was not posted goes now: nobody may route
// by a wrong load for longer than a heartbeat.
func (c *loads) heartbeat() {
	c.flushLoads()
	c.heartbeatDue = c.now + heartbeatMs
	c.wake(c.heartbeatDue)
	c.quiet = c.quiet[:0]
	for _, p := range c.order {
		c.vouch(p)
		if p.conns[Fast] != nil {
			c.quiet = append(c.quiet, p)
		}
	}
	slices.SortStableFunc(c.quiet, func(a, b *peer) int { return cmp.Compare(a.spokeAt, b.spokeAt) })
	n := (len(c.quiet) + int(c.crowd()) - 1) / int(c.crowd())
	for _, p := range c.quiet[:n] {
		if fast := p.conns[Fast]; p.needFull && c.fastRoom(fast) {
			c.sendFullLoads(p)
		} else {
			c.acks.sendAck(p, fast)
		}
	}
}

// vouch says for a peer whose silence was announced that it is not silent: what
// its requests weigh fades by what the state hears.
func (c *loads) vouch(p *peer) {
	if p.grace > 0 && c.viewAge(p) == 0 {
		c.state.JoinLoads(p.id, nil)
	}
}
