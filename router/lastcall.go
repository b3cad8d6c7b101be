package router

import (
	"net"
	"time"
)

// lastCall bounds the wait for a busy program to accept what the kernel has
// accepted for it.
const (
	lastCall = 3 * time.Second
	lastTick = 200 * time.Microsecond
)

// closeAfterLastCall closes l in a moment in which no connection waits to be
// accepted: closing resets those that do, and a balancer that checks passively
// sends some until the very end. Something else must be accepting all the
// while.
func closeAfterLastCall(l net.Listener) error {
	for end := time.Now().Add(lastCall); !closedIdle(l) && time.Now().Before(end); {
		time.Sleep(lastTick)
	}
	return l.Close()
}
