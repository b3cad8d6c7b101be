package report

import (
	"sync"
	"time"
)

// rateSeconds is what "requests a second" looks back on: long enough to be
// steady, short enough that a pool that stopped says so.
const rateSeconds = 5

// Rate is how fast a counter grew in the last seconds.
type Rate struct {
	mu    sync.Mutex // guards below
	marks [rateSeconds + 1]struct {
		at time.Time
		n  uint64
	}
	next int
}

// Mark notes the counter. It is called about once a second.
func (m *Rate) Mark(now time.Time, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks[m.next%len(m.marks)].at, m.marks[m.next%len(m.marks)].n = now, n
	m.next++
}

// PerSecond is the growth since the oldest mark; 0 before the first.
func (m *Rate) PerSecond(now time.Time, n uint64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next == 0 {
		return 0
	}
	old := &m.marks[max(0, m.next-len(m.marks))%len(m.marks)]
	return float64(n-old.n) / max(now.Sub(old.at).Seconds(), 1)
}
