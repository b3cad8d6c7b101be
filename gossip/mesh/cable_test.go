package mesh

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// cable is a network of two sides that can be cut: what crosses is lost, and
// sent again by TCP when its timer says so.
type cable struct {
	gap atomic.Pointer[gap] // nil: whole

	longest time.Duration // that TCP waits before it sends again

	mu    sync.Mutex
	sides map[string]bool // by advertised address
}

// gap is one time of being cut.
type gap struct {
	from time.Time
	to   time.Time     // set before over closes
	over chan struct{} // closed when it is
}

func newCable() *cable {
	c := &cable{sides: make(map[string]bool), longest: 2 * time.Minute}
	if resends() == nil {
		c.longest = time.Second // what peers ask of the kernel
	}
	return c
}

// resends asks the kernel whether resendSoon works here.
func resends() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	return resendSoon(conn.(*net.TCPConn))
}

func (c *cable) place(addr string, side bool) {
	c.mu.Lock()
	c.sides[addr] = side
	c.mu.Unlock()
}

func (c *cable) crosses(addr string, from bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	side, known := c.sides[addr]
	return known && side != from
}

func (c *cable) cut() { c.gap.Store(&gap{from: time.Now(), over: make(chan struct{})}) }

func (c *cable) heal() {
	g := c.gap.Swap(nil)
	g.to = time.Now()
	close(g.over)
}

// wire is the network as a peer on one side sees it.
func (c *cable) wire(side bool) *wire {
	return &wire{
		drops: func(addr string) bool { return c.gap.Load() != nil && c.crosses(addr, side) },
		dial: func(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error) {
			// A SYN that is lost goes again after 1 s, 2 s, ...
			began := time.Now()
			for wait := time.Second; c.gap.Load() != nil && c.crosses(addr, side); wait *= 2 {
				select {
				case <-time.After(min(wait, timeout-time.Since(began))):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				if time.Since(began) >= timeout {
					return nil, os.ErrDeadlineExceeded
				}
			}
			d := net.Dialer{Timeout: timeout}
			conn, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return &cutConn{Conn: conn, cable: c, addr: addr, side: side, closed: make(chan struct{})}, nil
		},
	}
}

// cutConn is the dialer's end of a connection that may cross.
type cutConn struct {
	net.Conn
	cable  *cable
	addr   string
	side   bool
	once   sync.Once
	closed chan struct{}
	write  atomic.Int64 // deadline, ns since 1970; 0 none
}

// hold waits while the cable is cut, and then for TCP to send again: a lost
// segment goes again after 0.2 s, 0.6 s, 1.4 s, ..., or every second at last
// where the kernel can be told so.
func (c *cutConn) hold(deadline int64) error {
	g := c.cable.gap.Load()
	if g == nil || !c.cable.crosses(c.addr, c.side) {
		return nil
	}
	var late <-chan time.Time
	if deadline != 0 {
		late = time.After(time.Until(time.Unix(0, deadline)))
	}
	select {
	case <-g.over:
	case <-c.closed:
		return net.ErrClosed
	case <-late:
		return os.ErrDeadlineExceeded
	}
	again := g.from
	for wait := 200 * time.Millisecond; again.Before(g.to); wait = min(2*wait, c.cable.longest) {
		again = again.Add(wait)
	}
	select {
	case <-time.After(time.Until(again)):
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		if held := c.hold(0); held != nil {
			return 0, held
		}
	}
	return n, err
}

func (c *cutConn) Write(p []byte) (int, error) {
	if err := c.hold(c.write.Load()); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *cutConn) SetDeadline(t time.Time) error {
	c.note(t)
	return c.Conn.SetDeadline(t)
}

func (c *cutConn) SetWriteDeadline(t time.Time) error {
	c.note(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *cutConn) note(t time.Time) {
	if t.IsZero() {
		c.write.Store(0)
	} else {
		c.write.Store(t.UnixNano())
	}
}

func (c *cutConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
