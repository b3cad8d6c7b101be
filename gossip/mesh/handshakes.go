package mesh

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// maxHandshakes bounds the connections whose remote has not said who it is.
const maxHandshakes = 256

// memberlist keeps what a stream sends until it has the whole of it, and only
// then finds out whether the sender has the key: up to 20 MiB each, in buffers
// that grow by doubling. The state of 1,024 members is below 1 MiB.
const (
	guestBytesMax     = 4 << 20  // of one membership stream
	maxHandshakeBytes = 16 << 20 // of all that stand
)

// handshakes are the connections of strangers. When there are too many the oldest
// yields: who belongs here leaves within a round trip, so a crowd of silent
// connections keeps nobody out (I5). When they have sent more than it holds,
// who sent most yields.
type handshakes struct {
	max, maxBytes int
	yielded       func(net.Conn, cause)

	mu     sync.Mutex // guards below, and the guests
	guests *list.List // of *guest, oldest first
	bytes  int        // that those in it have sent
	closed bool
	empty  chan struct{} // closes when closed is true and no guest is left
}

// guest is one place among the handshakes.
type guest struct {
	handshakes *handshakes
	conn       net.Conn
	place      *list.Element // nil once it has left
	bytes      int           // read of its membership stream
}

func newHandshakes(max, maxBytes int, yielded func(net.Conn, cause)) *handshakes {
	return &handshakes{max: max, maxBytes: maxBytes, yielded: yielded, guests: list.New(), empty: make(chan struct{})}
}

// enter takes a connection in; nil if no more are taken.
func (l *handshakes) enter(conn net.Conn) *guest {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	var oldest *guest
	if l.guests.Len() >= l.max {
		oldest = l.guests.Front().Value.(*guest)
		l.remove(oldest)
	}
	g := &guest{handshakes: l, conn: conn}
	g.place = l.guests.PushBack(g)
	l.mu.Unlock()
	l.send(oldest, causeCrowd)
	return g
}

// took counts n bytes that a guest has sent. It ends the guest's connection if
// those are too many, and the connection of who sent most if all together are.
func (g *guest) took(n int) {
	l := g.handshakes
	l.mu.Lock()
	if g.place == nil {
		l.mu.Unlock()
		return
	}
	g.bytes += n
	l.bytes += n
	out, why := g, causeOversize
	switch {
	case g.bytes > guestBytesMax:
	case l.bytes > l.maxBytes:
		why = causeCrowd
		for e := l.guests.Front(); e != nil; e = e.Next() {
			if other := e.Value.(*guest); other.bytes > out.bytes {
				out = other
			}
		}
	default:
		l.mu.Unlock()
		return
	}
	l.remove(out)
	l.mu.Unlock()
	l.send(out, why)
}

// remove takes a guest off the list. The caller holds l.mu.
func (l *handshakes) remove(g *guest) {
	if g.place == nil {
		return
	}
	l.guests.Remove(g.place)
	g.place = nil
	l.bytes -= g.bytes
}

// send ends the connection of a guest that was removed; nil is nobody.
func (l *handshakes) send(g *guest, why cause) {
	if g == nil {
		return
	}
	_ = g.conn.Close()
	l.yielded(g.conn, why)
}

// leave gives the place up: the connection ended, or is no stranger any more.
// It may be called more than once, and on nil.
func (g *guest) leave() {
	if g == nil {
		return
	}
	g.handshakes.mu.Lock()
	g.handshakes.remove(g)
	g.handshakes.tellEmpty()
	g.handshakes.mu.Unlock()
}

// close ends all guests and lets none in. Who serves a guest notices, and
// leaves; left waits for it.
func (l *handshakes) close() {
	l.mu.Lock()
	l.closed = true
	for e := l.guests.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*guest).conn.Close()
	}
	l.tellEmpty()
	l.mu.Unlock()
}

// tellEmpty closes l.empty when the last guest of closed handshakes has left. The
// caller holds l.mu.
func (l *handshakes) tellEmpty() {
	if !l.closed || l.guests.Len() > 0 {
		return
	}
	select {
	case <-l.empty:
	default:
		close(l.empty)
	}
}

// left waits until all guests of closed handshakes have left, for atMost; it
// reports whether they have.
func (l *handshakes) left(atMost time.Duration) bool {
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
	n, err := c.Conn.Read(p)
	c.guest.took(n)
	return n, err
}

func (c *guestConn) Close() error {
	defer c.guest.leave()
	return c.Conn.Close()
}
