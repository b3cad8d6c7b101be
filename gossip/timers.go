package gossip

// idleMs is the longest time without timers.
const idleMs = 1_000

// timers does everything whose time has come and plans the next run.
func (c *Core) timers() {
	c.due = c.now + idleMs
	c.watch()
	c.neighbours.dials()
	c.cursor.fillIn()
	if c.cursor.pushDue != 0 && c.cursor.pushDue <= c.now {
		c.cursor.pushAll()
	}
	if c.loads.loadDue != 0 && c.loads.loadDue <= c.now {
		c.loads.flushLoads()
	}
	if c.loads.heartbeatDue <= c.now {
		c.loads.heartbeat()
	}
	if c.clock.clockDue <= c.now {
		c.clock.judgeClock()
	}
	if c.predictions.predictDue != 0 && c.predictions.predictDue <= c.now {
		c.predictions.flushPredictions()
	}
	if c.digests.digestDue <= c.now {
		c.digests.digestRound()
	}
	c.repair.work()
	c.acks.sendDue()
	c.readiness.checkReady()
	for _, at := range []int64{c.loads.loadDue, c.loads.heartbeatDue, c.predictions.predictDue, c.cursor.pushDue, c.digests.digestDue} {
		if at != 0 {
			c.wake(at)
		}
	}
	c.due = max(c.due, c.now+1)
}

// watch closes connections that say nothing, and buries who is doubted and not
// heard any more.
func (c *Core) watch() {
	for i := 0; i < len(c.links); {
		cn := c.links[i]
		if p := cn.peer; p != nil && p.doubted && !c.neighbours.hears(p) {
			c.failedAt = c.now
			c.neighbours.bury(p)
			i = 0
			continue
		}
		if reason := c.idle(cn); reason != "" {
			c.stats.Dropped["connection"]++
			c.neighbours.hangup(cn, reason) // takes it out of links
			if p := cn.peer; p != nil && cn.class == Fast && !p.member && p.conns[Bulk] != nil {
				c.neighbours.hangup(p.conns[Bulk], reason) // nothing else vouches for it
			}
			i = 0
			continue
		}
		i++
	}
}

// idle names why a connection should end, if it should.
func (c *Core) idle(cn *conn) string {
	switch {
	case cn.peer == nil && c.now-cn.openedAt >= helloMs:
		return "no hello"
	case cn.class == Fast && c.now-cn.heardAt >= silenceMs:
		return "silent"
	case len(cn.inflight) > 0 && c.now-c.ackableAt(cn) >= stuckMs:
		return "nothing acknowledged"
	}
	return ""
}

// ackableAt is since when the oldest frame under way could have been
// acknowledged. Acks of both connections go by the fast one: while that does not
// stand, the bulk one is not to blame.
func (c *Core) ackableAt(cn *conn) int64 {
	if cn.class == Fast || cn.peer == nil {
		return cn.movedAt
	}
	if fast := cn.peer.conns[Fast]; fast != nil {
		return max(cn.movedAt, fast.knownAt)
	}
	return c.now
}
