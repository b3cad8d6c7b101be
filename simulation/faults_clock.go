package simulation

// peerClock is a peer's own clock: true time plus a skew. Where the skew sets
// it back it goes at half speed until it is caught up with, as the clock of
// gossip/mesh does.
type peerClock struct {
	skewMs int64
	last   int64 // true time of the last reading
	out    int64
	rest   int64 // ms of true time not yet counted at half speed
}

func (c *peerClock) read(now int64) int64 {
	elapsed := now - c.last
	c.last = now
	if wall := now + c.skewMs; wall > c.out {
		c.out, c.rest = wall, 0
		return c.out
	}
	c.rest += elapsed
	c.out += c.rest / 2
	c.rest %= 2
	return c.out
}
