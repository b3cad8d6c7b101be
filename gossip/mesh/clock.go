package mesh

import (
	"time"

	"github.com/banyan-llm/banyan/gossip"
)

// noticeable is how far the wall clock must have moved against the core's time
// to be set: less is the time between reading one and the other.
const noticeable = 20 * time.Millisecond

// passing is a clock that begins at a time and goes as time passes, whatever
// the wall clock is set to.
func passing(from time.Time) func() time.Time {
	from = from.Round(0)
	start := time.Now()
	return func() time.Time { return from.Add(time.Since(start)) }
}

// lead is how far the wall clock was ahead of the core's time when the core was
// last told.
type lead struct{ told time.Duration }

// moved returns what to tell the core, if the wall clock was set. wall was read
// between from and to of the core's time: if that took long it says nothing.
func (l *lead) moved(from, wall, to time.Time) (gossip.ClockSet, bool) {
	ahead := wall.Round(0).Sub(to.Round(0))
	d := ahead - l.told
	if to.Sub(from) >= noticeable/2 || d < noticeable && d > -noticeable {
		return gossip.ClockSet{}, false
	}
	l.told = ahead
	return gossip.ClockSet{AheadMs: ahead.Milliseconds()}, true
}
