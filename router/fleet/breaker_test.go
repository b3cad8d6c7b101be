package fleet

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBreakerOpensAtOnceWhenNobodyListens(t *testing.T) {
	now := time.Unix(100, 0)
	var b breaker
	if !b.fail(now, true, "connection refused") || !b.open {
		t.Fatal("still closed")
	}
	if b.retryAt.Sub(now) != breakerMinWait {
		t.Errorf("retried after %v", b.retryAt.Sub(now))
	}
}

func TestBreakerWaitsForARunOfSoftFailures(t *testing.T) {
	now := time.Unix(100, 0)
	var b breaker
	for i := range breakerFailures {
		if opened := b.fail(now, false, "time-out"); opened != (i == breakerFailures-1) {
			t.Fatalf("failure %d: opened %v", i+1, opened)
		}
	}
	b = breaker{}
	for range 10 * breakerFailures {
		b.fail(now, false, "time-out")
		b.ok(now)
	}
	if b.open {
		t.Error("failures with answers between them are no run")
	}
}

func TestProbesThatFailComeLessAndLessOften(t *testing.T) {
	now := time.Unix(100, 0)
	var b breaker
	b.fail(now, true, "connection refused")
	var last time.Duration
	for range 20 {
		b.probeFail(now, false, true, "time-out")
		wait := b.retryAt.Sub(now)
		if wait < last || wait > breakerProbeWait {
			t.Fatalf("wait %v after %v", wait, last)
		}
		last = wait
	}
	if last != breakerProbeWait {
		t.Errorf("wait ends at %v", last)
	}
	if !b.ok(now) || b.open || b.requests != 0 {
		t.Error("an answer must close it")
	}
}

// However long it was down, requests come back soon after its health does.
func TestAReplicaThatIsBackIsUsedSoon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Unix(100, 0)
		back := begin.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "down for")))
		var b breaker
		if rapid.Bool().Draw(t, "refused a request") {
			b.fail(begin, true, "connection refused")
		} else {
			b.probeFail(begin, true, false, "connection refused")
		}
		for b.open {
			now := b.retryAt
			if now.Before(back) {
				b.probeFail(now, true, false, "connection refused")
				continue
			}
			b.probeOK(now)
			if late := now.Sub(back); late > breakerProbeWait {
				t.Fatalf("down for %v, and used %v after it is back", back.Sub(begin), late)
			}
		}
	})
}

// What it waited for a process to come back says nothing of how that one works.
func TestALongOutageDoesNotProlongTheNextWait(t *testing.T) {
	now := time.Unix(100, 0)
	var b breaker
	b.probeFail(now, true, false, "connection refused")
	for range 20 {
		now = b.retryAt
		b.probeFail(now, true, false, "connection refused")
	}
	b.probeOK(now)
	b.fail(now, false, "status 500")
	if wait := b.retryAt.Sub(now); wait != 2*breakerMinWait {
		t.Errorf("wait %v", wait)
	}
}

// A replica that dies takes many requests with it: they are one failure.
func TestRequestsOnTheirWayDoNotProlongTheWait(t *testing.T) {
	now := time.Unix(100, 0)
	var b breaker
	for range 100 {
		b.fail(now, true, "connection reset")
	}
	if b.wait != breakerMinWait {
		t.Errorf("wait %v", b.wait)
	}
}

func TestHealthyProbesDoNotSaveAReplicaThatFailsRequests(t *testing.T) {
	now := time.Unix(100, 0)
	var b breaker
	for range breakerFailures - 1 {
		b.fail(now, false, "status 500")
		b.probeOK(now)
	}
	if !b.fail(now, false, "status 500") {
		t.Fatal("its probes saved it")
	}
	last := b.wait
	for range 10 {
		now = now.Add(b.wait)
		if !b.probeOK(now) || !b.fail(now, false, "status 500") {
			t.Fatal("on trial one failure is enough")
		}
		if b.wait < last {
			t.Fatalf("wait %v after %v", b.wait, last)
		}
		last = b.wait
	}
	if last != breakerMaxWait {
		t.Errorf("wait ends at %v", last)
	}
	b.probeOK(now)
	now = now.Add(breakerMemory)
	b.ok(now)
	b.fail(now, true, "connection refused")
	if b.wait != breakerMinWait {
		t.Errorf("old trouble counts: wait %v", b.wait)
	}
}

// Requests that fail say nothing of the process: what waits there is not lost.
func TestOnlyProbesTellThatAReplicaIsLost(t *testing.T) {
	now := time.Unix(100, 0)
	var b breaker
	for range breakerFailures {
		b.fail(now, false, "status 500")
	}
	if lost, _ := b.lost(); lost {
		t.Error("three failed requests make a replica lost")
	}
	b.probeFail(now, false, true, "time-out")
	if lost, mute := b.lost(); !lost || !mute {
		t.Errorf("lost %v, mute %v after a probe without an answer", lost, mute)
	}
	b.probeFail(now, true, false, "connection refused")
	if lost, mute := b.lost(); !lost || mute {
		t.Errorf("lost %v, mute %v though nobody listens", lost, mute)
	}
	b.probeOK(now)
	if lost, _ := b.lost(); lost {
		t.Error("lost though it answers")
	}
	for range breakerFailures - 1 {
		if b.probeFail(now, false, true, "time-out"); b.open {
			t.Error("one probe is no run")
		}
		if lost, _ := b.lost(); lost {
			t.Error("lost though it is up")
		}
	}
}

func TestBreakerKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(100, 0)
		var b breaker
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(40*time.Second)).Draw(t, "later")))
			was, hard := b.open, rapid.Bool().Draw(t, "hard")
			var changed bool
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				changed = b.fail(now, hard, "x")
			case 1:
				changed = b.probeFail(now, hard, !hard, "x")
			case 2:
				changed = b.ok(now)
			case 3:
				changed = b.probeOK(now)
			}
			if changed != (b.open != was) {
				t.Fatalf("open %v after %v, and it says changed %v", b.open, was, changed)
			}
			if b.open && (b.wait < breakerMinWait || b.wait > breakerMaxWait || b.retryAt.Sub(now) > breakerMaxWait || b.reason == "") {
				t.Fatalf("%+v", b)
			}
			if !b.open && (b.requests >= breakerFailures || b.probes >= breakerFailures) {
				t.Fatalf("closed after a run of failures: %+v", b)
			}
		}
	})
}

func TestAChoreThatFailsIsDoneLessAndLessOften(t *testing.T) {
	var c chore
	now := time.Unix(100, 0)
	last := time.Duration(0)
	for range 10 {
		c.done(now, time.Millisecond, false)
		wait := c.next.Sub(now)
		if wait < last || wait < retryMin || wait > retryMax || c.due(c.next.Add(-1)) || !c.due(c.next) {
			t.Fatalf("wait %v after %v", wait, last)
		}
		last, now = wait, c.next
	}
	if last != retryMax {
		t.Errorf("wait ends at %v", last)
	}
	c.done(now, time.Second, true)
	c.done(now, time.Second, false)
	if c.next.Sub(now) != retryMin {
		t.Errorf("what went well is forgotten: wait %v", c.next.Sub(now))
	}
}
