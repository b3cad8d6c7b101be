package fleet

import "time"

// Breaker thresholds: a refused connection opens at once, other failures after
// a run of them; an open breaker is retried by the health probe with doubling
// waits.
const (
	breakerFailures = 3
	breakerMinWait  = 500 * time.Millisecond
	breakerMaxWait  = 15 * time.Second
)

// breaker is the passive and active health of one replica as a pure machine.
//
// closed --failure(s)--> open --wait over, probe ok--> closed
type breaker struct {
	failures int
	open     bool
	since    time.Time
	wait     time.Duration
	retryAt  time.Time
	reason   string
}

// fail records a failed request or probe. A hard failure (nobody listens)
// opens the breaker at once. It reports whether the breaker opened now.
func (b *breaker) fail(now time.Time, hard bool, reason string) bool {
	b.failures++
	b.reason = reason
	if b.open {
		b.wait = min(2*b.wait, breakerMaxWait)
		b.retryAt = now.Add(b.wait)
		return false
	}
	if !hard && b.failures < breakerFailures {
		return false
	}
	b.open, b.since = true, now
	b.wait = breakerMinWait
	b.retryAt = now.Add(b.wait)
	return true
}

// ok records an answer; it reports whether the breaker closed now.
func (b *breaker) ok(now time.Time) bool {
	was := b.open
	if was {
		b.since = now
	}
	b.failures, b.open, b.wait, b.reason = 0, false, 0, ""
	return was
}
