package gossip

import "testing"

// While a stream always has some hole its pull lives on: of failures far apart
// each is waited for, and of those that come one after the other only the first.
func TestEachFailureIsWaitedForOnce(t *testing.T) {
	const start = int64(1_700_000_000_000)
	c, pl := &repair{base: &base{}}, &pull{}
	for _, x := range []struct {
		at, failed int64 // ms from the start; the last failure, -1: none
		waits      bool
	}{
		{0, -1, false},
		{1_000, 500, true},
		{20_000, 19_000, true},
		{30_499, 19_000, true},
		{30_500, 30_400, false},
		{60_499, 60_400, false},
		{60_500, 60_400, true},
		{90_400, 60_400, false},
		{500_000, 490_000, true},
	} {
		if c.now = start + x.at; x.failed >= 0 {
			c.failedAt = start + x.failed
		}
		if got := c.awaitsFailed(pl); got != x.waits {
			t.Errorf("at %d ms, the last failure at %d: waits %v", x.at, x.failed, got)
		}
	}
}
