package router

import "time"

// ms is t in ms on the clock by which this peer measures how long something
// took: the wall clock's time at the peer's start and what passed since. A
// wall clock that is set does not move it.
func (p *Peer) ms(t time.Time) int64 {
	return p.started.UnixMilli() + t.Sub(p.started).Milliseconds()
}
