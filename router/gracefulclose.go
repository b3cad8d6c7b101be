package router

import (
	"net"
	"time"
)

// lastCall bounds the wait for a busy program to accept what the kernel has
// accepted for it; handshake is how long what began to connect may take.
const (
	lastCall  = 3 * time.Second
	lastTick  = 200 * time.Microsecond
	handshake = 50 * time.Millisecond
)

// closeGracefully closes l in a moment in which no connection waits to be
// accepted: closing resets those that do, and a balancer that checks passively
// sends some until the very end. New connections must not arrive between that
// moment and the end: on Linux they are refused first; elsewhere about one in a
// thousand is reset. Something else must be accepting all the while.
func closeGracefully(l net.Listener) error {
	if hide(l) {
		time.Sleep(handshake)
	}
	for end := time.Now().Add(lastCall); !closedIdle(l) && time.Now().Before(end); {
		time.Sleep(lastTick)
	}
	return l.Close()
}
