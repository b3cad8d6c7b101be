package access

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// retiring is a server whose answers to /stream end when the test says so.
type retiring struct {
	clients *Connections
	l       net.Listener
	release chan struct{}
}

func startRetiring(t *testing.T) *retiring { return startLimited(t, 0) }

func startLimited(t *testing.T, most int) *retiring {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &retiring{clients: NewConnections(func() int { return most }, func(string) {}), l: l, release: make(chan struct{})}
	serve := func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/read") {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			_, _ = io.Copy(io.Discard, q.Body)
		}
		if strings.HasSuffix(q.URL.Path, "/stream") {
			w.(http.Flusher).Flush()
			<-r.release
			return
		}
		if q.URL.Path != "/kept" {
			w.Header().Set("Connection", "close")
		}
		fmt.Fprint(w, "last")
	}
	full := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	s := &http.Server{ConnState: r.clients.Note, ConnContext: r.clients.Context, Handler: r.clients.Guard([]string{"/health"}, full, serve)}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return r
}

// client is one raw connection, so that nothing is retried.
type client struct {
	net.Conn
	r *bufio.Reader
}

func (r *retiring) dial(t *testing.T) client {
	c, err := net.Dial("tcp", r.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return client{c, bufio.NewReader(c)}
}

func (c client) ask(t *testing.T, path string) *http.Response {
	t.Helper()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return res
}

func TestRetireAnswersTheRequestThatFollowsAStream(t *testing.T) {
	r := startRetiring(t)
	c := r.dial(t)
	stream := c.ask(t, "/stream")
	retired := make(chan int, 1)
	go func() { retired <- r.clients.Retire(context.Background(), time.Minute) }()
	r.l.Close()
	close(r.release)
	_, _ = io.Copy(io.Discard, stream.Body)
	// The stream began before the drain, so its head did not say close: the
	// client may go on with its connection, and must learn it from an answer.
	if res := c.ask(t, "/next"); !res.Close {
		t.Error("the next answer does not close the connection")
	}
	if n := <-retired; n != 0 {
		t.Errorf("%d answers were running", n)
	}
}

func TestRetireClosesIdleConnectionsAfterTheLinger(t *testing.T) {
	r := startRetiring(t)
	used, fresh := r.dial(t), r.dial(t)
	close(r.release)
	_, _ = io.Copy(io.Discard, used.ask(t, "/stream").Body)
	waitUntil(t, func() bool {
		r.clients.mu.Lock()
		defer r.clients.mu.Unlock()
		return len(r.clients.open) == 2
	})
	if n := r.clients.Retire(context.Background(), 30*time.Millisecond); n != 0 {
		t.Errorf("%d answers were running", n)
	}
	for _, c := range []client{used, fresh} {
		if _, err := c.r.ReadByte(); err != io.EOF {
			t.Errorf("an idle connection ended with %v, want EOF", err)
		}
	}
}

// gone waits until the server ended the connection.
func (c client) gone(t *testing.T) {
	t.Helper()
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("the connection still stands")
	}
}

func (r *retiring) count() int {
	r.clients.mu.Lock()
	defer r.clients.mu.Unlock()
	return len(r.clients.open)
}

// heard reports whether requests of that many connections have come, and that
// many connections wait for their client, for the rest of a body say.
func (r *retiring) heard(active, waiting int) func() bool {
	return func() bool {
		r.clients.mu.Lock()
		defer r.clients.mu.Unlock()
		heard := 0
		for _, x := range r.clients.open {
			if x.active {
				heard++
			}
		}
		return heard == active && waiting == r.clients.idle.Len()
	}
}

func TestTheLongestIdleConnectionGivesItsPlaceToANewcomer(t *testing.T) {
	r := startLimited(t, 3)
	busy := r.dial(t)
	stream := busy.ask(t, "/stream")
	first := r.dial(t)
	waitUntil(t, func() bool { return r.count() == 2 })
	second := r.dial(t)
	waitUntil(t, func() bool { return r.count() == 3 })
	if res := r.dial(t).ask(t, "/next"); res.StatusCode != http.StatusOK {
		t.Errorf("a newcomer is answered %d", res.StatusCode)
	}
	first.gone(t)
	if res := second.ask(t, "/next"); res.StatusCode != http.StatusOK {
		t.Errorf("the other idle connection is answered %d", res.StatusCode)
	}
	close(r.release)
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream that ran was cut: %v", err)
	}
}

func TestBusyConnectionsKeepTheirPlaces(t *testing.T) {
	r := startLimited(t, 1)
	defer close(r.release)
	r.dial(t).ask(t, "/stream")
	for path, want := range map[string]int{"/next": http.StatusServiceUnavailable, "/health": http.StatusOK} {
		guest := r.dial(t)
		if res := guest.ask(t, path); res.StatusCode != want || !res.Close {
			t.Errorf("a guest asks for %s and is told %s, close %v", path, res.Status, res.Close)
		}
	}
	waitUntil(t, func() bool { return r.count() == 1 })
}

// upload begins a request whose body the handler reads, and does not end it.
func (r *retiring) upload(t *testing.T, path string) client {
	c := r.dial(t)
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{", path)
	return c
}

// A connection waits for its client until the whole request is there.
func TestABodyThatDoesNotComeMakesWay(t *testing.T) {
	r := startLimited(t, 2)
	defer close(r.release)
	first := r.upload(t, "/read")
	waitUntil(t, r.heard(1, 1))
	whole := r.upload(t, "/read/stream")
	waitUntil(t, r.heard(2, 2))
	_, _ = io.WriteString(whole, "}")
	if _, err := http.ReadResponse(whole.r, nil); err != nil { //nolint:bodyclose // the stream runs on
		t.Fatal(err)
	}
	if res := r.dial(t).ask(t, "/next"); res.StatusCode != http.StatusOK {
		t.Errorf("a newcomer is answered %s", res.Status)
	}
	first.gone(t)
	waitUntil(t, func() bool { return r.count() == 1 })
	idle := r.dial(t)
	waitUntil(t, r.heard(1, 1))
	r.dial(t).ask(t, "/next")
	idle.gone(t)
	waitUntil(t, r.heard(1, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if r.clients.Retire(ctx, time.Hour) != 1 {
		t.Error("the whole request is not being answered")
	}
}

// A drain waits for a body as for an answer.
func TestRetireLeavesUploads(t *testing.T) {
	r := startRetiring(t)
	up := r.upload(t, "/read")
	waitUntil(t, r.heard(1, 1))
	done := make(chan int)
	go func() { done <- r.clients.Retire(t.Context(), 0) }()
	time.Sleep(3 * RetireTick)
	_, _ = io.WriteString(up, "}")
	if res, err := http.ReadResponse(up.r, nil); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("an upload during a drain is answered %v, %v", res, err)
	} else {
		res.Body.Close()
	}
	if n := <-done; n != 0 {
		t.Errorf("%d answers were running at the end", n)
	}
}

// What nobody reads ends soon, and is answered.
func TestABodyThatNobodyReadsIsNotWaitedFor(t *testing.T) {
	c := startRetiring(t).upload(t, "/kept")
	res, err := http.ReadResponse(c.r, nil)
	if err != nil || res.StatusCode != http.StatusOK || !res.Close {
		t.Fatalf("%v, %v", res, err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	c.gone(t)
}

// The first guest to come makes way for the next.
func TestGuestsAreBounded(t *testing.T) {
	c := NewConnections(func() int { return 1 }, func(string) {})
	busy := &from{addr: "10.0.0.1"}
	c.keep(busy, http.StateNew)
	c.keep(busy, http.StateActive)
	var guests []*from
	for i := range 3 * spare {
		guests = append(guests, &from{addr: "10.0.0.2"})
		victim, why := c.keep(guests[i], http.StateNew)
		switch {
		case i < spare && victim != nil:
			t.Fatalf("guest %d took a place", i)
		case i >= spare && (victim != guests[i-spare] || why != NoPlace):
			t.Fatalf("guest %d took the place of %v (%s)", i, victim, why)
		}
		c.keep(guests[i], http.StateActive)
	}
	last := guests[len(guests)-1]
	if c.seat(last) || !c.seat(busy) {
		t.Error("a guest has a place, or who was first has none")
	}
	c.keep(busy, http.StateClosed)
	if !c.seat(last) || c.seated() != 1 || c.of["10.0.0.2"].open != 1 {
		t.Error("a guest does not get the place that is free")
	}
	for conn := range c.open {
		c.keep(conn, http.StateClosed)
	}
	if c.idle.Len() != 0 || c.guests.Len() != 0 || len(c.of) != 0 || len(c.heavy) != 0 {
		t.Errorf("left behind: %d idle, %d guests, %d addresses", c.idle.Len(), c.guests.Len(), len(c.of))
	}
}

// from is a connection of an address.
type from struct {
	net.Conn
	addr string
}

func (f *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.addr), Port: 1} }

func TestAStrangerPushesOutItselfFirst(t *testing.T) {
	c := NewConnections(func() int { return 16 }, func(string) {})
	var clients []*from
	open := func(addr string) (*from, net.Conn) {
		conn := &from{addr: addr}
		victim, _ := c.keep(conn, http.StateNew)
		return conn, victim
	}
	for range 4 { // old and idle, a quarter of the places
		conn, _ := open("10.0.0.1")
		clients = append(clients, conn)
	}
	for i := range 1000 {
		if _, victim := open("10.0.0.2"); victim != nil {
			if got := victim.(*from).addr; got != "10.0.0.2" {
				t.Fatalf("connection %d of a stranger took the place of %s", i, got)
			}
		}
	}
	if _, victim := open("10.0.0.3"); victim == nil || victim.(*from).addr != "10.0.0.2" {
		t.Errorf("a newcomer took the place of %v, want one of the stranger's", victim)
	}
	for _, conn := range clients {
		if c.open[conn] == nil {
			t.Error("a client lost its place")
		}
	}
	if n := c.idle.Len(); n != 16 || len(c.open) != 16 || c.of["10.0.0.2"].open != 11 || c.of["10.0.0.2"].idle.Len() != 11 {
		t.Errorf("%d idle, %d open, the stranger %+v", n, len(c.open), c.of["10.0.0.2"])
	}
	for conn := range c.open {
		c.keep(conn, http.StateClosed)
	}
	if c.idle.Len() != 0 || len(c.of) != 0 || len(c.heavy) != 0 {
		t.Errorf("left behind: %d idle, %d addresses, %d over their share", c.idle.Len(), len(c.of), len(c.heavy))
	}
}

func TestRetireEndsAtItsTimeout(t *testing.T) {
	r := startRetiring(t)
	defer close(r.release)
	r.dial(t).ask(t, "/stream")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if n := r.clients.Retire(ctx, time.Millisecond); n != 1 {
		t.Errorf("%d answers were running, want 1", n)
	}
}

// waitUntil polls, at most 10 s.
func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s")
		}
	}
}
