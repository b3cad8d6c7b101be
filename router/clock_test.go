package router

import (
	"testing"
	"time"
)

// The peer's clock begins with the wall clock and goes as time passes.
func TestClockCountsWhatPassed(t *testing.T) {
	c := newClock()
	for _, d := range []time.Duration{0, time.Millisecond, time.Hour, -time.Hour} {
		if at := c.at(c.began.Add(d)); !at.Equal(c.began.Add(d)) || c.ms(c.began.Add(d)) != at.UnixMilli() {
			t.Errorf("%v after its start it shows %v", d, at.Sub(c.began))
		}
	}
	// A time without the monotonic reading is compared by what it says.
	if at := c.at(c.began.Round(0).Add(time.Minute)); !at.Equal(c.began.Add(time.Minute)) {
		t.Errorf("a minute after its start it shows %v", at.Sub(c.began))
	}
}
