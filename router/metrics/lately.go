package metrics

import (
	"sync"
	"time"
)

// lately sums up the last minute in slots of 5 seconds.
type lately struct {
	mu    sync.Mutex // guards below
	slots [12]struct {
		at, n, failed, firsts int64
		ttft                  time.Duration
	}
}

const latelySlot = 5 // seconds

func (l *lately) add(now time.Time, failed bool, ttft time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := now.Unix() / latelySlot
	s := &l.slots[at%int64(len(l.slots))]
	if s.at != at {
		*s = struct {
			at, n, failed, firsts int64
			ttft                  time.Duration
		}{at: at}
	}
	s.n++
	if failed {
		s.failed++
	}
	if ttft > 0 {
		s.firsts, s.ttft = s.firsts+1, s.ttft+ttft
	}
}

func (l *lately) sum(now time.Time) (n, failed int, meanTTFT time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, firsts := now.Unix()/latelySlot, int64(0)
	for i := range l.slots {
		if s := &l.slots[i]; at-s.at < int64(len(l.slots)) {
			n, failed, firsts, meanTTFT = n+int(s.n), failed+int(s.failed), firsts+s.firsts, meanTTFT+s.ttft
		}
	}
	if firsts > 0 {
		meanTTFT /= time.Duration(firsts)
	}
	return n, failed, meanTTFT
}
