package gossip

import "math"

// offset estimates how far a connection's received times lie ahead of its
// sender's clock: the minimum over the last 60 s of (received - sent), which is
// the clock difference plus the shortest way.
type offset struct {
	slots [offsetSlots]int64 // minimum of each 10 s, newest first
	start int64              // when the newest began
	any   bool
}

const (
	offsetSlots  = 6
	offsetSlotMs = 10_000
)

// add takes one sample.
func (o *offset) add(received, sent int64) {
	if !o.any {
		o.any, o.start = true, received
		for i := range o.slots {
			o.slots[i] = math.MaxInt64
		}
	}
	for received-o.start >= offsetSlotMs {
		copy(o.slots[1:], o.slots[:offsetSlots-1])
		o.slots[0] = math.MaxInt64
		o.start += offsetSlotMs
		if received-o.start >= offsetSlots*offsetSlotMs {
			o.start = received
			for i := range o.slots {
				o.slots[i] = math.MaxInt64
			}
		}
	}
	o.slots[0] = min(o.slots[0], received-sent)
}

// min is the estimate; 0 before the first sample.
func (o *offset) min() int64 {
	if !o.any {
		return 0
	}
	m := o.slots[0]
	for _, s := range o.slots[1:] {
		m = min(m, s)
	}
	if m == math.MaxInt64 {
		return 0
	}
	return m
}

// maxClock bounds a sender's clock: 10,000 years of ms.
const maxClock = 1 << 48

// clockOf notes the sender's clock of a frame.
func (c *Core) clockOf(cn *conn, sent int64) {
	if sent < 0 || sent > maxClock {
		return
	}
	cn.clock = max(cn.clock, sent)
	cn.offset.add(c.now, sent)
	if cn.class == Fast && cn.peer != nil {
		cn.peer.viewAt = max(cn.peer.viewAt, c.now-cn.delay(c.now))
	}
}

// delay is how long the latest frame was on its way, beyond the shortest way,
// ms.
func (cn *conn) delay(now int64) int64 {
	return max(0, now-cn.clock-cn.offset.min())
}

// viewAge is how old what this peer knows of p is, ms.
func (c *Core) viewAge(p *peer) int64 { return max(0, c.now-p.viewAt) }
