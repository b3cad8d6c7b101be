package router

import "time"

// clock is the time by which a peer measures how long something took: the wall
// clock's time at the start and what passed since. Setting the wall clock does
// not move it. What peers compare with each other (predictions, first tokens,
// scrapes, operators' words) is in the wall clock's time instead.
type clock struct {
	began time.Time // with its monotonic part
	ns    int64     // began, since 1970
}

func newClock() clock {
	now := time.Now()
	return clock{now, now.UnixNano()}
}

// at is the time on this clock when time.Now returned t.
func (c clock) at(t time.Time) time.Time { return time.Unix(0, c.ns+int64(t.Sub(c.began))) }

// ms is at in ms since 1970.
func (c clock) ms(t time.Time) int64 { return (c.ns + int64(t.Sub(c.began))) / 1e6 }
