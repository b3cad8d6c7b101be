package router

import (
	"testing"
	"time"
)

func TestPaceLetsABurstThroughAndThenARate(t *testing.T) {
	var g pace
	now := time.Unix(1_700_000_000, 0)
	through := 0
	for range 2 * recordBurst {
		if g.allow(now) {
			through++
		}
	}
	if through != recordBurst {
		t.Errorf("%d at once, want %d", through, recordBurst)
	}
	for range 20 { // a second, asked ten times as often as it lets through
		for range 100 {
			now = now.Add(recordEvery / 10)
			if g.allow(now) {
				through++
			}
		}
	}
	if through != recordBurst+200 {
		t.Errorf("%d in a second, want 200", through-recordBurst)
	}
}
