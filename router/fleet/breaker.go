package fleet

import "time"

// Breaker thresholds: a refused connection opens at once, other failures after
// a run of them; an open breaker is retried by the health probe with doubling
// waits.
const (
	breakerFailures = 3
	breakerMinWait  = 500 * time.Millisecond
	breakerMaxWait  = 15 * time.Second
	// breakerProbeWait is the longest wait between probes that fail: a restarted
	// engine is used so soon after it is back. The watcher's pace, drawn anew each
	// time, keeps peers from asking all at once.
	breakerProbeWait = 2 * time.Second
	// breakerMemory is how long after a closing an opening counts as the same
	// trouble, and waits longer than the one before.
	breakerMemory = 30 * time.Second
)

// breaker is the passive and active health of one replica as a pure machine.
//
//	closed --run of failures--> open --wait over, probe ok--> on trial
//	on trial --one failure--> open, for longer; --a request answered--> closed
//
// Requests and probes have runs of their own: an engine that answers /health
// and fails every request must not be saved by its probes.
type breaker struct {
	requests int  // run of failed requests
	probes   int  // run of failed probes
	mute     bool // the last of these got no answer at all
	open     bool
	since    time.Time     // of the present state
	wait     time.Duration // from its opening to the first probe
	pause    time.Duration // from the last probe that failed since to the next
	retryAt  time.Time
	reason   string
}

// fail records a failed request. A hard failure (nobody listens) opens the
// breaker at once. It reports whether the breaker opened now. Requests that
// were on their way when it opened change nothing.
func (b *breaker) fail(now time.Time, hard bool, reason string) bool {
	if b.open {
		return false
	}
	b.requests++
	b.reason = reason
	return b.judge(now, hard || b.requests >= breakerFailures)
}

// probeFail records a failed probe; mute says that no answer came. While open,
// the next one waits twice as long, which is no verdict on the process that
// answers in the end.
func (b *breaker) probeFail(now time.Time, hard, mute bool, reason string) bool {
	b.probes++
	b.reason, b.mute = reason, mute
	if b.open {
		b.pause = min(max(2*b.pause, breakerMinWait), breakerProbeWait)
		b.retryAt = now.Add(b.pause)
		return false
	}
	return b.judge(now, hard || b.probes >= breakerFailures)
}

// lost reports whether the breaker is open and the last probe agrees; mute says
// that it got no answer.
func (b *breaker) lost() (lost, mute bool) { return b.open && b.probes > 0, b.mute }

func (b *breaker) judge(now time.Time, open bool) bool {
	if !open {
		return false
	}
	next := breakerMinWait
	if b.wait > 0 && now.Sub(b.since) < breakerMemory {
		next = min(2*b.wait, breakerMaxWait)
	}
	b.open, b.since, b.wait, b.pause = true, now, next, 0
	b.retryAt = now.Add(next)
	return true
}

// ok records an answered request; it reports whether the breaker closed now.
func (b *breaker) ok(now time.Time) bool {
	closed := b.close(now)
	b.requests = 0
	return closed
}

// probeOK records an answered probe; it reports whether the breaker closed
// now. A replica let in by a probe is on trial.
func (b *breaker) probeOK(now time.Time) bool {
	closed := b.close(now)
	if closed {
		b.requests = breakerFailures - 1
	}
	return closed
}

func (b *breaker) close(now time.Time) bool {
	was := b.open
	if was {
		b.since = now
	}
	b.probes, b.open, b.reason = 0, false, ""
	return was
}
