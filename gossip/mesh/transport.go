package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport is the one port: memberlist's packets and streams, and the peer
// streams beside them.
type transport struct {
	tcp        *net.TCPListener
	udp        *net.UDPConn
	header     []byte // the label as memberlist writes it
	advertise  *net.TCPAddr
	timing     Timing
	handshakes *handshakes
	refuse     func(why cause, from net.Addr, args ...any)
	// peer takes a peer stream over; it must not wait for more than the
	// connection's deadline, which is set.
	peer func(net.Conn, preamble, *guest)

	wire    *wire // tests
	packets chan *memberlist.Packet
	streams chan net.Conn
	ctx     context.Context // ends with the transport; not any one request's
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

const (
	udpBuffer    = 2 << 20 // asked of the kernel
	packetMax    = 1 << 16
	bindAttempts = 16 // for a port that is free for both UDP and TCP
)

// listen binds both sockets to one port.
func listen(ctx context.Context, bind string) (tcp *net.TCPListener, udp *net.UDPConn, err error) {
	host, port, err := net.SplitHostPort(bind)
	if err != nil {
		return nil, nil, fmt.Errorf("bind mesh: %w", err)
	}
	var lc net.ListenConfig
	for range bindAttempts {
		ln, err := lc.Listen(ctx, "tcp", bind)
		if err != nil {
			return nil, nil, fmt.Errorf("bind mesh: %w", err)
		}
		tcp = ln.(*net.TCPListener)
		at := net.JoinHostPort(host, strconv.Itoa(tcp.Addr().(*net.TCPAddr).Port))
		pc, err := lc.ListenPacket(ctx, "udp", at)
		if err == nil {
			udp = pc.(*net.UDPConn)
			_ = udp.SetReadBuffer(udpBuffer) // the kernel may allow less
			return tcp, udp, nil
		}
		_ = tcp.Close()
		if port != "0" {
			return nil, nil, fmt.Errorf("bind mesh: %w", err)
		}
	}
	return nil, nil, errors.New("bind mesh: no port is free for both UDP and TCP")
}

// start begins to listen.
func (t *transport) start() {
	t.wg.Go(t.accept)
	t.wg.Go(t.receive)
}

// accept takes connections until the listener closes.
func (t *transport) accept() {
	for wait := time.Duration(0); ; {
		conn, err := t.tcp.AcceptTCP()
		switch {
		case t.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if conn != nil {
				_ = conn.Close()
			}
			return
		case err != nil: // out of descriptors, mostly
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(wait):
			case <-t.ctx.Done():
			}
		default:
			wait = 0
			if g := t.handshakes.enter(conn); g != nil {
				t.wg.Go(func() { t.identify(conn, g) })
			} else {
				_ = conn.Close()
			}
		}
	}
}

// identify looks at the first bytes of a connection and hands it on.
func (t *transport) identify(conn *net.TCPConn, g *guest) {
	if why, err := t.sort(conn, g); err != nil {
		g.leave()
		if why != "" && t.ctx.Err() == nil {
			t.refuse(why, conn.RemoteAddr(), "err", err)
		}
		_ = conn.Close()
	}
}

// sort decides by the first byte. An error without a cause is a connection
// that closed without a word: a probe of the port.
func (t *transport) sort(conn *net.TCPConn, g *guest) (cause, error) {
	if err := conn.SetDeadline(time.Now().Add(t.timing.Hello)); err != nil {
		return "", err
	}
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return lateOr(err, ""), err
	}
	switch first[0] {
	case magic[0]:
		pre, err := readPreamble(conn, first[0])
		switch {
		case errors.Is(err, errVersion):
			return causeVersion, err
		case err != nil:
			return lateOr(err, causeGarbage), err
		}
		t.peer(conn, pre, g)
		return "", nil
	case labelByte:
		return t.stream(conn, g)
	}
	return causeGarbage, fmt.Errorf("first byte %#02x", first[0])
}

// stream hands a memberlist stream of our cluster to memberlist, as if nothing
// had been read.
func (t *transport) stream(conn *net.TCPConn, g *guest) (cause, error) {
	got := make([]byte, 2, 2+memberlist.LabelMaxSize)
	got[0] = labelByte
	if _, err := io.ReadFull(conn, got[1:]); err != nil {
		return lateOr(err, causeGarbage), err
	}
	got = got[:2+int(got[1])]
	if _, err := io.ReadFull(conn, got[2:]); err != nil {
		return lateOr(err, causeGarbage), err
	}
	if string(got) != string(t.header) {
		return causeLabel, fmt.Errorf("cluster label %q", got[2:])
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return "", err
	}
	select {
	case t.streams <- &guestConn{Conn: conn, guest: g, unread: got}:
		return "", nil
	case <-t.ctx.Done():
		return "", t.ctx.Err()
	}
}

// lateOr is causeTimeout for a deadline that passed, and none for a connection
// that this side closed.
func lateOr(err error, other cause) cause {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return causeTimeout
	case errors.Is(err, net.ErrClosed):
		return ""
	}
	return other
}

// receive passes on the packets of our cluster.
func (t *transport) receive() {
	buf := make([]byte, packetMax)
	for {
		n, from, err := t.udp.ReadFromUDP(buf)
		switch {
		case t.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue // an ICMP error of an earlier packet; the socket stands
		}
		if ok, why := ours(buf[:n], t.header); !ok {
			t.refuse(why, from, "packet", n)
			continue
		}
		p := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: from, Timestamp: time.Now()}
		select {
		case t.packets <- p:
		case <-t.ctx.Done():
			return
		}
	}
}

// FinalAdvertiseAddr implements memberlist.Transport: Config.Advertise, not
// memberlist's own configuration.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.advertise.IP, t.advertise.Port, nil
}

// wire stands in for the network between peers, by the addresses they
// advertise.
type wire struct {
	dial  func(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error)
	drops func(addr string) bool // whether packets to addr are lost
}

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	if t.wire != nil && t.wire.drops(addr) {
		return time.Now(), nil
	}
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.udp.WriteToUDP(b, to)
	return time.Now(), err
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout implements memberlist.Transport; it waits for Timing.Dial at
// most, so that dead seeds do not hold up the living.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.dial(t.ctx, addr, min(timeout, t.timing.Dial))
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

func (t *transport) dial(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error) {
	if t.wire != nil {
		return t.wire.dial(ctx, addr, timeout)
	}
	d := net.Dialer{Timeout: timeout}
	return d.DialContext(ctx, "tcp", addr)
}

// Shutdown implements memberlist.Transport.
func (t *transport) Shutdown() error {
	t.cancel()
	err := errors.Join(t.tcp.Close(), t.udp.Close())
	t.handshakes.close()
	t.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
