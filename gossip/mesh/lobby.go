package mesh

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// lobbyMax bounds the connections whose remote has not said who it is.
const lobbyMax = 256

// lobby holds the connections of strangers. When it is full the oldest
// yields: who belongs here leaves within a round trip, so a crowd of silent
// connections keeps nobody out (I5).
type lobby struct {
	max     int
	yielded func(net.Conn)

	mu     sync.Mutex // guards below
	guests *list.List // of net.Conn, oldest first
	closed bool
	empty  chan struct{} // closes when closed is true and no guest is left
}

// guest is one place in the lobby.
type guest struct {
	lobby *lobby
	place *list.Element
}

func newLobby(max int, yielded func(net.Conn)) *lobby {
	return &lobby{max: max, yielded: yielded, guests: list.New(), empty: make(chan struct{})}
}

// enter takes a connection in; nil if the lobby is closed.
func (l *lobby) enter(conn net.Conn) *guest {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	var oldest net.Conn
	if l.guests.Len() >= l.max {
		oldest = l.guests.Remove(l.guests.Front()).(net.Conn)
	}
	g := &guest{lobby: l, place: l.guests.PushBack(conn)}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
		l.yielded(oldest)
	}
	return g
}

// leave gives the place up: the connection ended, or is no stranger any more.
// It may be called more than once, and on nil.
func (g *guest) leave() {
	if g == nil {
		return
	}
	g.lobby.mu.Lock()
	g.lobby.guests.Remove(g.place)
	g.lobby.tellEmpty()
	g.lobby.mu.Unlock()
}

// close ends all guests and lets none in. Who serves a guest notices, and
// leaves; left waits for it.
func (l *lobby) close() {
	l.mu.Lock()
	l.closed = true
	for e := l.guests.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close()
	}
	l.tellEmpty()
	l.mu.Unlock()
}

// tellEmpty closes l.empty when the last guest of a closed lobby has left. The
// caller holds l.mu.
func (l *lobby) tellEmpty() {
	if !l.closed || l.guests.Len() > 0 {
		return
	}
	select {
	case <-l.empty:
	default:
		close(l.empty)
	}
}

// left waits until all guests of a closed lobby have left, for atMost; it
// reports whether they have.
func (l *lobby) left(atMost time.Duration) bool {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-l.empty:
		return true
	case <-t.C:
		return false
	}
}

// guestConn is a stranger's connection handed on with the bytes already read;
// closing it gives up its place.
type guestConn struct {
	net.Conn
	guest *guest

	unread []byte // read before the connection itself
}

func (c *guestConn) Read(p []byte) (int, error) {
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		c.unread = c.unread[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

func (c *guestConn) Close() error {
	defer c.guest.leave()
	return c.Conn.Close()
}
