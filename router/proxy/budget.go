package proxy

import (
	"sync"
	"time"
)

// budget bounds retries to a share of the requests and a rate besides, so that
// a failing fleet is not asked twice as much for failing.
type budget struct {
	ratio  float64 // earned by a request
	rate   float64 // earned a second
	most   float64 // saved at most
	mu     sync.Mutex
	saved  float64
	earned time.Time
}

// budgetSeconds is how long a saving by rate may reach back.
const budgetSeconds = 10

func newBudget(ratio, rate float64) *budget {
	return &budget{ratio: ratio, rate: rate, most: budgetSeconds*rate + 100*ratio, saved: budgetSeconds * rate}
}

// request earns the share of one request.
func (b *budget) request(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earnLocked(now)
	b.saved = min(b.most, b.saved+b.ratio)
}

// take spends one retry, if there is one.
func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earnLocked(now)
	if b.saved < 1 {
		return false
	}
	b.saved--
	return true
}

func (b *budget) earnLocked(now time.Time) {
	if !b.earned.IsZero() && now.After(b.earned) {
		b.saved = min(b.most, b.saved+b.rate*now.Sub(b.earned).Seconds())
	}
	b.earned = now
}
