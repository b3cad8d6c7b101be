package router

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// retireTick is how often a draining peer looks for idle connections.
const retireTick = 20 * time.Millisecond

// connections knows the open client connections and since when each is idle,
// and closes those over the limit before a byte is read of them.
type connections struct {
	most    func() int // 0: no limit
	refused func()     // called for each one closed

	mu   sync.Mutex             // guards below
	open map[net.Conn]time.Time // zero while a request is being answered
}

func newConnections(most func() int, refused func()) *connections {
	return &connections{most: most, refused: refused, open: map[net.Conn]time.Time{}}
}

// note is for http.Server.ConnState.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	if c.keep(conn, state) {
		return
	}
	c.refused()
	_ = conn.Close()
}

// keep notes a state and reports whether there is room for the connection.
func (c *connections) keep(conn net.Conn, state http.ConnState) bool {
	most := c.most()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if most > 0 && len(c.open) >= most {
			return false
		}
		c.open[conn] = time.Now()
	case http.StateIdle:
		c.open[conn] = time.Now()
	case http.StateActive:
		c.open[conn] = time.Time{}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
	return true
}

// retire closes each connection once it was idle for linger, counted from now
// at the earliest, until none is left. It returns at the latest when ctx ends,
// with the number of answers still running.
func (c *connections) retire(ctx context.Context, linger time.Duration) (running int) {
	from := time.Now()
	tick := time.NewTicker(retireTick)
	defer tick.Stop()
	for {
		open, running := c.closeIdle(from, linger)
		if open == 0 {
			return 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return running
		}
	}
}

func (c *connections) closeIdle(from time.Time, linger time.Duration) (open, running int) {
	c.mu.Lock()
	var due []net.Conn
	for conn, idle := range c.open {
		switch {
		case idle.IsZero():
			running++
		case time.Since(idle) >= linger && time.Since(from) >= linger:
			due = append(due, conn)
			delete(c.open, conn)
		}
	}
	open = len(c.open)
	c.mu.Unlock()
	for _, conn := range due {
		_ = conn.Close()
	}
	return open, running
}
