package gossip

// maxClock bounds a sender's clock: some 8,900 years of ms.
const maxClock = 1 << 48

// clockOf notes the sender's clock of a frame.
func (c *Core) clockOf(cn *conn, sent int64) {
	if sent < 0 || sent > maxClock {
		return
	}
	cn.clock = max(cn.clock, sent)
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
