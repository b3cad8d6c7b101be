package access

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// RetireTick is how often a draining peer looks for idle connections.
const RetireTick = 20 * time.Millisecond

// heavyShare is the share of the places that an address may hold before it is
// the first to give some back.
const heavyShare = 4 // a quarter

// Connections knows the open client connections and since when each is idle.
// Where there is no place left, the one that was idle longest makes way for the
// newcomer: first of addresses that hold more than a quarter of the places, so
// that no stranger pushes others out. If none is idle the newcomer is closed
// before a byte is read of it.
type Connections struct {
	most   func() int       // 0: no limit
	closed func(why string) // called for each one closed for want of a place

	mu    sync.Mutex // guards below
	open  map[net.Conn]*connection
	idle  list.List // of *connection, the longest idle first
	of    map[string]*address
	heavy map[*address]bool // those with more than a quarter of the places
}

// connection is one that is open.
type connection struct {
	conn  net.Conn
	from  *address
	since time.Time     // when it became idle; zero while a request is being answered
	all   *list.Element // in connections.idle; nil while it is not idle
	own   *list.Element // in address.idle
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
	GaveWay = "idle"        // an idle one gave its place to a newcomer
)

func NewConnections(most func() int, closed func(why string)) *Connections {
	return &Connections{most: most, closed: closed, open: map[net.Conn]*connection{}, of: map[string]*address{}, heavy: map[*address]bool{}}
}

// Note is for http.Server.ConnState.
func (c *Connections) Note(conn net.Conn, state http.ConnState) {
	victim := c.keep(conn, state)
	if victim == nil {
		return
	}
	why := GaveWay
	if victim == conn {
		why = NoPlace
	}
	c.closed(why)
	_ = victim.Close()
}

// keep notes a state and returns the connection that must be closed, if one
// must. O(1).
func (c *Connections) keep(conn net.Conn, state http.ConnState) (victim net.Conn) {
	most := c.most()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if most > 0 && len(c.open) >= most {
			if victim = c.longestIdle(); victim == nil {
				return conn
			}
			c.forget(victim)
		}
		c.add(conn, most)
	case http.StateIdle:
		c.rest(c.open[conn])
	case http.StateActive:
		c.wake(c.open[conn])
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
	return victim
}

// add notes a new connection, idle until its first byte.
func (c *Connections) add(conn net.Conn, most int) {
	name, _, err := net.SplitHostPort(conn.RemoteAddr().String())
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
	c.open[conn] = &connection{conn: conn, from: from}
	c.rest(c.open[conn])
}

// rest notes that a connection is idle from now on.
func (c *Connections) rest(x *connection) {
	if x == nil { // it was closed
		return
	}
	c.wake(x)
	x.since = time.Now()
	x.all, x.own = c.idle.PushBack(x), x.from.idle.PushBack(x)
}

// wake notes that a request is being answered.
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
	c.wake(x)
	delete(c.open, conn)
	x.from.open--
	if x.from.open == 0 {
		delete(c.of, x.from.name)
		delete(c.heavy, x.from)
	}
}

// longestIdle is who makes way: of an address with more than its share, else of
// all. Few addresses can be over a quarter; those that no longer are, are
// dropped here.
func (c *Connections) longestIdle() net.Conn {
	var first *connection
	for from := range c.heavy {
		if from.open <= c.most()/heavyShare {
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
		case x.since.IsZero():
			running++
		case time.Since(x.since) >= linger && time.Since(from) >= linger:
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
