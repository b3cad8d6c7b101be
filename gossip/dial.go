package gossip

import (
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// Bounds of how many dials are under way at a time.
const (
	dialsOfMesh = 256 // all peers together, about: the least that one does
	dialsLeast  = 2   // of that
	dialsMost   = 16
)

// dialPace is how many dials may be under way at a time. Handshakes that all
// begin together end together, and in a large mesh that starts at once, on
// machines that have little time for it, too late: all of them are given up and
// begun again. So a dial that is late halves the number, and as many as are under
// way that succeed add one. A small mesh always has as many as it needs: it
// comes together at once when a partition ends, whatever was late meanwhile.
type dialPace struct {
	more  int   // than the least
	good  int   // that became connections since more last changed
	cutAt int64 // when more was last halved
}

// least is how many dials one of n peers has under way at least.
func least(n int) int { return min(max(dialsOfMesh/max(n, 1), dialsLeast), dialsMost) }

// room is how many dials one of n peers may have under way.
func (d *dialPace) room(n int) int { return min(least(n)+d.more, dialsMost) }

// stood counts a dial that became a connection, of one of n peers.
func (d *dialPace) stood(n int) {
	if d.good++; d.good >= d.room(n) {
		d.more, d.good = min(d.more+1, dialsMost), 0
	}
}

// late counts a dial that took dialSlowMs; of those that were under way
// together only the first.
func (d *dialPace) late(now int64) {
	if now-d.cutAt >= dialSlowMs {
		d.more, d.good, d.cutAt = d.more/2, 0, now
	}
}

// planDial sets when to dial a peer next: the smaller id at once, then with
// growing waits; the other later.
func (c *neighbours) planDial(p *peer, class Class) {
	if !p.member {
		p.dialAt[class] = 0
		return
	}
	wait := int64(0)
	if !c.cfg.Self.Less(p.id) {
		wait = max(dialLaterMs, int64(len(c.order))*dialEachMs)
	}
	if n := p.tries[class]; n > 0 {
		wait = max(wait, c.jitter(min(int64(dialMs)<<min(n, 8), maxDialMs)))
	}
	p.dialAt[class] = c.now + max(wait, 1)
	c.wake(p.dialAt[class])
}

// dials asks for the connections that are due and not under way, as many as the
// pace allows: first those that were never tried. The peers with larger ids come
// first, from the own id on, so that a mesh that starts at once does not call on
// the same peer first.
func (c *neighbours) dials() {
	underWay := c.dialsUnderWay() // first: a late one leaves less room
	free := c.dialing.room(len(c.order)+1) - underWay
	i, _ := slices.BinarySearchFunc(c.order, c.cfg.Self, func(p *peer, self crdt.PeerID) int { return slices.Compare(p.id[:], self[:]) })
	turns := slices.Concat(c.order[i:], c.order[:i])
	for _, again := range []bool{false, true} {
		for _, p := range turns {
			for class := range Classes {
				if (p.tries[class] > 0) == again && c.dialDue(p, Class(class)) && free > 0 {
					c.dial(p, Class(class))
					free--
				}
			}
		}
	}
}

// dialDue reports whether a connection is to be dialed now; one whose time will
// come is planned for.
func (c *neighbours) dialDue(p *peer, class Class) bool {
	at := p.dialAt[class]
	switch {
	case at == 0 || p.conns[class] != nil:
	case at > c.now:
		c.wake(at)
	default:
		return true
	}
	return false
}

// dial asks for a connection, and plans the next try. One that was opened and
// waits for its hello is waited for.
func (c *neighbours) dial(p *peer, class Class) {
	if !c.greeting(p, class) {
		c.emit(Dial{Peer: p.id, Class: class})
	}
	p.tries[class]++
	p.dialed[class] = c.now
	c.planDial(p, class)
}

// dialsUnderWay counts the dials that may still become connections: whose turn
// is another's next waits until one stands, or is late.
func (c *neighbours) dialsUnderWay() (n int) {
	for _, p := range c.order {
		for class, at := range p.dialed {
			switch late := at + dialSlowMs; {
			case at == 0:
			case p.conns[class] != nil:
				p.dialed[class] = 0
			case c.now >= late:
				p.dialed[class] = 0
				c.dialing.late(c.now)
			default:
				n++
				c.wake(late)
			}
		}
	}
	return n
}

// greeting reports whether a connection that may become p's waits for its hello.
func (c *neighbours) greeting(p *peer, class Class) bool {
	for _, cn := range c.links {
		if cn.peer == nil && cn.class == class && cn.expect == p.id {
			return true
		}
	}
	return false
}
