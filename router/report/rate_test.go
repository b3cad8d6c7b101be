package report

import (
	"testing"
	"time"
)

// Requests a second are those of the last seconds: a pool that stopped says so.
func TestTheRateIsOfTheLastSeconds(t *testing.T) {
	var m Rate
	at, n := time.Now(), uint64(0)
	for range 60 {
		m.Mark(at, n)
		at, n = at.Add(time.Second), n+100
	}
	if r := m.PerSecond(at, n); r < 99 || r > 101 {
		t.Errorf("%v a second, want 100", r)
	}
	counts := []uint64{}
	for i := range uint64(20) { // more each second: what it looks back on is seen
		n += i * i
		m.Mark(at, n)
		counts = append(counts, n)
		if old := len(counts) - 1 - rateSeconds; old >= 0 {
			if got, want := m.PerSecond(at, n), float64(n-counts[old])/rateSeconds; got < want-.01 || got > want+.01 {
				t.Errorf("%v a second, want %v", got, want)
			}
		}
		at = at.Add(time.Second)
	}
	for range rateSeconds + 1 {
		m.Mark(at, n)
		at = at.Add(time.Second)
	}
	if r := m.PerSecond(at, n); r != 0 {
		t.Errorf("%v a second after %d s of nothing", r, rateSeconds)
	}
}
