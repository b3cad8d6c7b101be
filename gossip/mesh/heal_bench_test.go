//go:build unix

package mesh

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// BenchmarkHeal is the budget "a partition of 10 s under load is healed within
// 2 s": 8 whole peers at 100 k blocks/s, cut into halves both ways while the
// events of both go on. heal-s is from the end of the cut until every peer
// knows all that was told until then, with the load still on; meet-s until all
// connections stand again; p99-ms is the propagation within the halves
// meanwhile. At the end all contexts and sums are equal, and samples match.
func BenchmarkHeal(b *testing.B) {
	for b.Loop() {
		heal(b, 8, 100_000, 10*time.Second)
	}
}

func heal(b *testing.B, peers, rate int, cut time.Duration) {
	const streams, blocks = 64, 16
	c := newCable()
	delays := make([][]float64, peers) // ms, while cut
	nodes := octet(b, peers, func(i int, d *crdt.Delta) {
		if c.gap.Load() == nil {
			return
		}
		now := time.Now().UnixMicro()
		for s := range d.Slots {
			delays[i] = append(delays[i], float64(now-d.Slots[s].TS)/1000)
		}
	}, func(i int) *wire { return c.wire(i >= peers/2) })
	defer func() {
		for _, n := range nodes {
			n.end(b)
		}
	}()
	for i, n := range nodes {
		c.place(n.Addr(), i >= peers/2)
	}
	tellers := make([]*teller, streams)
	for i := range tellers {
		tellers[i] = newTeller(i)
	}
	f := begin(b, nodes, tellers, rate, blocks)
	time.Sleep(2 * time.Second)
	c.cut()
	time.Sleep(cut)
	c.heal()
	healed := time.Now()
	want := nodes[0].index.All()
	for _, n := range nodes[1:] {
		for id, d := range n.index.All() {
			if d.Context.Floor > want[id].Context.Floor {
				want[id] = d
			}
		}
	}
	var met time.Duration
	for deadline := healed.Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if met == 0 && linked(nodes) {
			met = time.Since(healed)
		}
		if knowAll(nodes, want) {
			break
		}
		if time.Now().After(deadline) {
			b.Fatal("not healed")
		}
	}
	took := time.Since(healed)
	f.end()
	if met == 0 {
		meet(b, nodes)
		met = time.Since(healed)
	}
	equal(b, nodes)
	matches(b, nodes, tellers, 100)
	var all []float64
	for i, n := range nodes {
		if err := n.Do(b.Context(), func() { all = append(all, delays[i]...) }); err != nil {
			b.Fatal(err)
		}
	}
	if len(all) < f.sent {
		b.Fatalf("%d slots spread within the halves while cut, of %d told in all", len(all), f.sent)
	}
	slices.Sort(all)
	b.ReportMetric(took.Seconds(), "heal-s")
	b.ReportMetric(met.Seconds(), "meet-s")
	b.ReportMetric(all[len(all)*99/100], "p99-ms")
	b.ReportMetric(float64(f.sent)*blocks/f.took.Seconds(), "blocks/s")
}

// linked reports whether all see each other.
func linked(nodes []*indexed) bool {
	for _, x := range nodes {
		for _, y := range nodes {
			if x != y && !x.sees(y.node) {
				return false
			}
		}
	}
	return true
}

// knowAll reports whether all peers' floors are at least those wanted.
func knowAll(nodes []*indexed, want map[crdt.StreamID]crdt.Digest) bool {
	for _, n := range nodes {
		for id, w := range want {
			if d, _ := n.index.Digest(id); d.Context.Floor < w.Context.Floor {
				return false
			}
		}
	}
	return true
}

// cable is a network of two sides that can be cut: what crosses is lost, and
// sent again by TCP when its timer says so.
type cable struct {
	gap atomic.Pointer[gap] // nil: whole

	mu    sync.Mutex
	sides map[string]bool // by advertised address
}

// gap is one time of being cut.
type gap struct {
	from time.Time
	to   time.Time     // set before over closes
	over chan struct{} // closed when it is
}

func newCable() *cable { return &cable{sides: make(map[string]bool)} }

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
// segment goes again after 0.2 s, 0.6 s, 1.4 s, ...
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
	for wait := 200 * time.Millisecond; again.Before(g.to); wait *= 2 {
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
