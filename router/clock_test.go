package router

import (
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
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

// Setting the wall clock changes what is told to others and read of them, and
// no time that this peer measures itself.
func TestABoardOutlastsAClockThatIsSet(t *testing.T) {
	const hour = int64(time.Hour / time.Millisecond)
	for _, jump := range []int64{hour, -hour, -rateWindow * 1000} {
		b := newBoard(crdt.PeerID{1}, newClock())
		id, other := crdt.NewStreamID("http://r", 0), crdt.NewStreamID("http://s", 0)
		now := 10 * hour
		for range 500 {
			now += 20
			b.dispatch(&share{id: id}, now)
		}
		b.ClockSet(jump)
		for range 10 {
			now += 20
			b.dispatch(&share{id: id}, now)
		}
		if r := b.ownRate(now); r < 30 || r > 60 {
			t.Errorf("%+d ms: 50 requests a second read as %v", jump, r)
		}
		if c := filled(b, id, now, 100); c.YoungCount != 5 {
			t.Errorf("%+d ms: %d dispatches of the last 100 ms, want 5", jump, c.YoungCount)
		}
		b.dispatch(&share{id: other}, now)
		if c := filled(b, other, now, 0); c.FirstToken != now+jump {
			t.Errorf("%+d ms: others are told a first token at %+d ms", jump, c.FirstToken-now)
		}
		for _, s := range []struct {
			ago   int64 // by the wall clock, when the scrape was taken
			fresh bool
		}{{500, true}, {-500, true}, {scrapeFreshMs, false}, {-scrapeFreshMs, false}, {-hour, false}} {
			b.forget(other)
			b.JoinScrapes(map[crdt.StreamID]crdt.Scrape{other: {Version: uint64(now + jump - s.ago), Waiting: 7}})
			if c := filled(b, other, now, 0); (c.Queued == 7) != s.fresh {
				t.Errorf("%+d ms: a scrape of %d ms ago is read as %d waiting", jump, s.ago, c.Queued)
			}
		}
	}
}
