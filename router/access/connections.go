package access

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// RetireTick is how often a draining peer looks for idle connections.
const RetireTick = 20 * time.Millisecond

// heavyShare is the share of the places that an address may hold before it is
// the first to give some back.
const heavyShare = 4 // a quarter

// spare are the places beyond the limit, for connections that are heard and
// sent away: health checks are answered there, everything else is told that the
// peer is full.
const spare = 64

// strangersBody bounds how long the body of a request may take that nobody reads:
// of one without a key, say, which the server reads to its end before it lets go
// of the connection. Handlers that read a body set their own time.
const strangersBody = 2 * time.Second

// Connections knows the open client connections, and which of them wait for
// their client: for a request, or for the rest of its body. Where there is no
// place left, the one that waits longest makes way for the newcomer: first of
// addresses that hold more than a quarter of the places, so that no stranger
// pushes others out. If all are being answered the newcomer is a guest, in the
// place of the guest that came first if need be.
type Connections struct {
	most   func() int       // 0: no limit
	closed func(why string) // called for each one closed or sent away for want of a place

	mu     sync.Mutex // guards below
	open   map[net.Conn]*connection
	idle   list.List // of *connection, the longest idle first
	guests list.List // of *connection, the first to come first
	of     map[string]*address
	heavy  map[*address]bool // those with more than a quarter of the places
}

// connection is one that is open.
type connection struct {
	conn   net.Conn
	from   *address
	active bool          // a request has come and its answer has not ended
	since  time.Time     // since when it waits for its client; zero while it does not
	all    *list.Element // in connections.idle; nil while it waits for nothing
	own    *list.Element // in address.idle
	guest  *list.Element // in connections.guests; nil if it has a place
}

// address is where connections come from.
type address struct {
	name string
	open int
	idle list.List // of *connection, the longest idle first
}

// Why a connection was closed for want of a place; reasons of the metric.
const (
	NoPlace = "connections" // a newcomer found none
	GaveWay = "idle"        // one that waited for its client gave its place to a newcomer
)

func NewConnections(most func() int, closed func(why string)) *Connections {
	return &Connections{most: most, closed: closed, open: map[net.Conn]*connection{}, of: map[string]*address{}, heavy: map[*address]bool{}}
}

type connKey struct{}

// Context is for http.Server.ConnContext: Guard learns from it whose request it
// is.
func (c *Connections) Context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// Guard stands before everything that a listener serves. Guests are refused
// unless a place is free by now, except at the paths that are always answered.
func (c *Connections) Guard(always []string, refuse, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		if r.Body != nil && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(strangersBody))
			if r.ProtoMajor == 1 { // one request at a time
				r = r.WithContext(r.Context()) // the server looks at its own
				r.Body = &arriving{ReadCloser: r.Body, arrived: func() { c.note(conn, c.wake) }}
				c.note(conn, c.rest)
			}
		}
		if !c.seat(conn) {
			w.Header().Set("Connection", "close")
			if !slices.Contains(always, r.URL.Path) {
				c.closed(NoPlace)
				refuse(w, r)
				return
			}
		}
		next(w, r)
	}
}

// arriving is a body that tells when it has come whole.
type arriving struct {
	io.ReadCloser
	arrived func()
}

func (a *arriving) Read(p []byte) (n int, err error) {
	if n, err = a.ReadCloser.Read(p); err == io.EOF && a.arrived != nil {
		a.arrived()
		a.arrived = nil
	}
	return n, err
}

func (c *Connections) note(conn net.Conn, f func(*connection)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.open[conn])
}

// seat reports whether a connection has a place: a guest takes one that is free.
func (c *Connections) seat(conn net.Conn) bool {
	most := c.most()
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.open[conn]
	if x == nil || x.guest == nil { // it was closed, or has one
		return true
	}
	if most > 0 && c.seated() >= most {
		return false
	}
	c.guests.Remove(x.guest)
	x.guest = nil
	c.settle(x, most)
	return true
}

func (c *Connections) seated() int { return len(c.open) - c.guests.Len() }

// Note is for http.Server.ConnState.
func (c *Connections) Note(conn net.Conn, state http.ConnState) {
	if victim, why := c.keep(conn, state); victim != nil {
		c.closed(why)
		_ = victim.Close()
	}
}

// keep notes a state and returns the connection that must be closed, if one
// must, and why. O(1).
func (c *Connections) keep(conn net.Conn, state http.ConnState) (victim net.Conn, why string) {
	most := c.most()
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.open[conn]
	switch state {
	case http.StateNew:
		full := most > 0 && c.seated() >= most
		if full {
			if victim, why = c.longestIdle(most), GaveWay; victim != nil {
				c.forget(victim)
				full = false
			} else if c.guests.Len() >= spare {
				victim, why = c.guests.Front().Value.(*connection).conn, NoPlace
				c.forget(victim)
			}
		}
		x = &connection{conn: conn}
		c.open[conn] = x
		if full {
			x.guest = c.guests.PushBack(x)
		} else {
			c.settle(x, most)
			c.rest(x)
		}
	case http.StateIdle:
		c.act(x, false)
		c.rest(x)
	case http.StateActive:
		c.act(x, true)
		c.wake(x)
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
	return victim, why
}

func (c *Connections) act(x *connection, active bool) {
	if x != nil {
		x.active = active
	}
}

// settle gives a connection a place, one of those of its address.
func (c *Connections) settle(x *connection, most int) {
	name, _, err := net.SplitHostPort(x.conn.RemoteAddr().String())
	if err != nil { // of no network
		name = ""
	}
	from := c.of[name]
	if from == nil {
		from = &address{name: name}
		c.of[name] = from
	}
	from.open++
	if from.open > most/heavyShare {
		c.heavy[from] = true
	}
	x.from = from
}

// rest notes that a connection waits for its client from now on.
func (c *Connections) rest(x *connection) {
	if x == nil || x.guest != nil { // it was closed, or makes way anyhow
		return
	}
	c.wake(x)
	x.since = time.Now()
	x.all, x.own = c.idle.PushBack(x), x.from.idle.PushBack(x)
}

// wake notes that a connection does not wait for its client any more.
func (c *Connections) wake(x *connection) {
	if x == nil || x.all == nil {
		return
	}
	c.idle.Remove(x.all)
	x.from.idle.Remove(x.own)
	x.since, x.all, x.own = time.Time{}, nil, nil
}

func (c *Connections) forget(conn net.Conn) {
	x := c.open[conn]
	if x == nil {
		return
	}
	delete(c.open, conn)
	if x.guest != nil {
		c.guests.Remove(x.guest)
		return
	}
	c.wake(x)
	x.from.open--
	if x.from.open == 0 {
		delete(c.of, x.from.name)
		delete(c.heavy, x.from)
	}
}

// longestIdle is who makes way: of an address with more than its share, else of
// all. Few addresses can be over a quarter; those that no longer are, are
// dropped here.
func (c *Connections) longestIdle(most int) net.Conn {
	var first *connection
	for from := range c.heavy {
		if from.open <= most/heavyShare {
			delete(c.heavy, from)
			continue
		}
		if e := from.idle.Front(); e != nil {
			if x := e.Value.(*connection); first == nil || x.since.Before(first.since) {
				first = x
			}
		}
	}
	if e := c.idle.Front(); first == nil && e != nil {
		first = e.Value.(*connection)
	}
	if first == nil {
		return nil
	}
	return first.conn
}

// Retire closes each connection once it was idle for linger, counted from now
// at the earliest, until none is left. It returns at the latest when ctx ends,
// with the number of answers still running.
func (c *Connections) Retire(ctx context.Context, linger time.Duration) (running int) {
	from := time.Now()
	tick := time.NewTicker(RetireTick)
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

func (c *Connections) closeIdle(from time.Time, linger time.Duration) (open, running int) {
	c.mu.Lock()
	var due []net.Conn
	for _, x := range c.open {
		switch {
		case x.active:
			running++
		case x.guest != nil || time.Since(x.since) >= linger && time.Since(from) >= linger:
			due = append(due, x.conn)
		}
	}
	for _, conn := range due {
		c.forget(conn)
	}
	open = len(c.open)
	c.mu.Unlock()
	for _, conn := range due {
		_ = conn.Close()
	}
	return open, running
}
