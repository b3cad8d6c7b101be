package gossip

import (
	"github.com/banyan-llm/banyan/crdt"
)

// ready is whether this peer may serve: it knows what its donors announced and
// does not fall behind.
type ready struct {
	joined bool // the cold join is over
	said   bool // Caught was emitted at least once
	ok     bool
	reason string
	lateAt int64 // when a slot last came more than behindMs late
}

const (
	lateHoldMs   = 2_000 // a late slot makes not ready this long
	snapshotsMax = 3     // of one stream within a minute
)

// readiness judges whether this peer is caught up.
type readiness struct {
	*base
	cursor  *cursor
	digests *digests
	repair  *repair
	ready   ready
	snapped []crdt.StreamID // streams joined by snapshot within the last minute
}

// Ready reports whether this peer is caught up, and why or why not.
func (c *Core) Ready() (ok bool, why string) { return c.readiness.ready.ok, c.readiness.ready.reason }

// checkReady says so when readiness or its reason changes.
func (c *readiness) checkReady() {
	ok, why := c.judge()
	if r := &c.ready; !r.said || r.ok != ok || r.reason != why {
		r.said, r.ok, r.reason = true, ok, why
		c.emit(Caught{Ready: ok, Reason: why})
	}
}

func (c *readiness) judge() (bool, string) {
	if !c.ready.joined {
		ok, why := c.judgeJoin()
		if !ok {
			return false, why
		}
		c.ready.joined = true
		c.tellJoined()
		return true, why
	}
	if why := c.behind(); why != "" {
		return false, why
	}
	if c.ready.ok {
		return true, c.ready.reason
	}
	return true, "caught up again"
}

// judgeJoin decides the cold join. What a peer tells that joins itself proves
// nothing: two that met each other before the mesh would take its streams for
// unknown and name the engines' incarnations anew. A member out of reach may be
// what is left of the mesh, also one that says it is not ready: it is waited for
// as long as nobody who has joined tells what it knew.
func (c *readiness) judgeJoin() (bool, string) {
	age := c.now - c.startAt
	if age >= c.cfg.JoinBound {
		return true, ReadyLate
	}
	c.wake(c.startAt + c.cfg.JoinBound)
	members, heard, silent := 0, 0, 0
	told := false
	for _, p := range c.order {
		members++
		switch {
		case p.digested:
			heard++
			told = told || p.joined || p.ready
		case !p.both() && c.now-p.reachedAt >= joinReachMs:
			silent++
		}
	}
	switch {
	case members == 0:
		if age < c.cfg.JoinGrace {
			c.wake(c.startAt + c.cfg.JoinGrace)
			return false, "looking for the mesh"
		}
		return true, "alone"
	case heard == 0 || heard+silent < members:
		c.wakeToReach()
		return false, "waiting for digests"
	case c.lacking() > 0:
		return false, "catching up"
	case !told && (age < c.cfg.JoinGrace || silent > 0):
		c.wake(c.startAt + c.cfg.JoinGrace)
		return false, "waiting for a peer that has joined"
	}
	return true, "caught up"
}

// tellJoined tells those that join as well what this peer knows by now.
func (c *readiness) tellJoined() {
	for _, p := range c.order {
		if p.digested && !p.joined {
			c.digests.sendDigest(p)
		}
	}
}

// wakeToReach makes sure that members out of reach are given up in time: a
// peer that was killed is a member until its failure is detected, and need not
// be waited for where others tell what it knew.
func (c *readiness) wakeToReach() {
	for _, p := range c.order {
		if until := p.reachedAt + joinReachMs; !p.digested && !p.both() && c.now < until {
			c.wake(until)
		}
	}
}

// lacking counts the streams of which some peer is known to know more.
func (c *readiness) lacking() (n int) {
	for _, pl := range c.repair.pullOrder {
		if len(pl.donors) > 0 || pl.assembly != nil || pl.joining {
			n++
		}
	}
	return n
}

// behind names what makes a peer that had caught up fall back, if anything.
func (c *readiness) behind() string {
	if c.ready.lateAt != 0 && c.now-c.ready.lateAt < lateHoldMs {
		c.wake(c.ready.lateAt + lateHoldMs)
		return "slots come late"
	}
	for _, pl := range c.repair.pullOrder {
		if len(pl.donors) == 0 {
			continue
		}
		if c.now-pl.since >= behindMs {
			return "a stream is behind"
		}
		c.wake(pl.since + behindMs)
	}
	return c.thrashing()
}

// thrashing reports a stream that took its third snapshot within a minute.
func (c *readiness) thrashing() string {
	why := ""
	for _, id := range c.snapped {
		l := c.cursor.streams[id]
		if l == nil {
			continue
		}
		for len(l.snapshots) > 0 && c.now-l.snapshots[0] >= minuteMs {
			l.snapshots = l.snapshots[1:]
		}
		if len(l.snapshots) >= snapshotsMax {
			c.wake(l.snapshots[0] + minuteMs)
			why = "a stream needs snapshot after snapshot"
		}
	}
	return why
}

// noteSnapshot remembers that a stream was joined by snapshot.
func (c *readiness) noteSnapshot(l *local, pl *pull) {
	if len(l.snapshots) == 0 {
		c.snapped = append(c.snapped, pl.stream)
	}
	l.snapshots = append(l.snapshots, c.now)
	kept := c.snapped[:0]
	for _, id := range c.snapped {
		if s := c.cursor.streams[id]; s != nil && len(s.snapshots) > 0 {
			kept = append(kept, id)
		}
	}
	c.snapped = kept
}
