package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// linksMax bounds the peer streams that stand, dialed and accepted.
const linksMax = 4096

// keepAlive finds dead remotes below the core's own heartbeat.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// dialKey names an attempt that is under way.
type dialKey struct {
	peer  crdt.PeerID
	class gossip.Class
}

// dial opens a peer stream in the background, one attempt at a time per peer
// and class; the core asks again if nothing comes of it.
func (m *Mesh) dial(d gossip.Dial) {
	addr, ok := m.roster.address(d.Peer)
	if !ok {
		return
	}
	key := dialKey{d.Peer, d.Class}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dials[key] || m.state == closed {
		return
	}
	if len(m.dials) >= linksMax {
		m.meter.dropped.WithLabelValues("dial").Inc()
		return
	}
	m.dials[key] = true
	m.wg.Go(func() {
		err := m.connect(d, addr)
		m.mu.Lock()
		delete(m.dials, key)
		m.mu.Unlock()
		m.meter.dials.WithLabelValues(resultOf(err)).Inc()
		if err != nil && m.ctx.Err() == nil {
			m.log.Debug("dial failed", "peer", d.Peer.String(), "addr", addr, "class", classes[d.Class], "err", err)
		}
	})
}

// connect dials, says what kind of stream it is, and shakes hands.
func (m *Mesh) connect(d gossip.Dial, addr string) error {
	conn, err := m.transport.dial(m.ctx, addr, m.cfg.Timing.Dial)
	if err != nil {
		return err
	}
	client, _ := m.identity.configs()
	if err := conn.SetDeadline(time.Now().Add(m.cfg.Timing.Hello)); err != nil {
		return errors.Join(err, conn.Close())
	}
	pre := preamble{class: d.Class, tls: client != nil}
	if _, err := conn.Write(pre.bytes()); err != nil {
		return errors.Join(err, conn.Close())
	}
	l := &link{class: d.Class, dialed: true, expect: d.Peer, conn: conn}
	if client != nil {
		if err := m.shake(l, tls.Client(conn, client)); err != nil {
			m.refuseTLS(conn.RemoteAddr(), err)
			return errors.Join(err, conn.Close())
		}
	}
	return m.adopt(l, conn)
}

// accepted takes over a peer stream from the port; the deadline for its
// handshake is set.
func (m *Mesh) accepted(conn net.Conn, pre preamble, g *guest) {
	l := &link{class: pre.class, conn: conn, guest: g}
	err := m.receive(l, conn, pre)
	if err != nil {
		g.leave()
		_ = conn.Close()
	}
}

func (m *Mesh) receive(l *link, conn net.Conn, pre preamble) error {
	_, server := m.identity.configs()
	if pre.tls != (server != nil) {
		err := errors.New("one side wants TLS, the other does not")
		m.refusals.refuse(causeTLS, conn.RemoteAddr(), "err", err)
		return err
	}
	if server != nil {
		if err := m.shake(l, tls.Server(conn, server)); err != nil {
			m.refuseTLS(conn.RemoteAddr(), err)
			return err
		}
	}
	return m.adopt(l, conn)
}

// shake makes l speak TLS.
func (m *Mesh) shake(l *link, conn *tls.Conn) error {
	if err := conn.HandshakeContext(m.ctx); err != nil {
		return err
	}
	state := conn.ConnectionState()
	l.conn, l.tls = conn, &state
	l.guest.leave() // no stranger any more
	return nil
}

// refuseTLS counts a handshake that failed for another reason than the
// connection's end.
func (m *Mesh) refuseTLS(from net.Addr, err error) {
	switch {
	case m.ctx.Err() != nil, errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF):
	case errors.Is(err, os.ErrDeadlineExceeded):
		m.refusals.refuse(causeTimeout, from, "err", err)
	default:
		m.refusals.refuse(causeTLS, from, "err", err)
	}
}

// adopt makes a stream part of the mesh: from here on it has a reader, a
// writer and a name in the core.
func (m *Mesh) adopt(l *link, raw net.Conn) error {
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return errors.Join(err, raw.Close())
	}
	if c, ok := raw.(*net.TCPConn); ok {
		_ = c.SetKeepAliveConfig(keepAlive) // NoDelay is Go's default
		_ = resendSoon(c)                   // where the kernel can
	}
	l.id = gossip.Conn(m.nextConn.Add(1))
	l.out, l.inbox, l.timing, l.meter = newOutbox(), m.inbox, m.cfg.Timing, m.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == closed || len(m.links) >= linksMax {
		m.meter.dropped.WithLabelValues("link").Inc()
		return errors.Join(ErrClosed, raw.Close())
	}
	m.links[l.id] = l
	m.inbox.lane(l.class, gossip.Connected{Conn: l.id, Class: l.class, Dialed: l.dialed, Expect: l.expect})
	m.wg.Go(func() { m.attend(l) })
	return nil
}

// attend runs a stream until it ends, and says so to the core.
func (m *Mesh) attend(l *link) {
	m.meter.connections.WithLabelValues(classes[l.class]).Inc()
	err := l.run(m.ctx)
	m.meter.connections.WithLabelValues(classes[l.class]).Dec()
	m.mu.Lock()
	delete(m.links, l.id)
	m.mu.Unlock()
	m.inbox.lane(l.class, gossip.Disconnected{Conn: l.id})
	m.ended(l, err)
}

// ended counts and logs why a stream ended, if that was not done where it was
// decided.
func (m *Mesh) ended(l *link, err error) {
	why := l.why()
	from := l.conn.RemoteAddr()
	switch {
	case m.ctx.Err() != nil:
		m.meter.ended.WithLabelValues("shutdown").Inc()
		return
	case why != "":
	case errors.Is(err, errOversize):
		m.refusals.refuse(causeOversize, from, "err", err)
		m.meter.ended.WithLabelValues("remote").Inc()
	case errors.Is(err, os.ErrDeadlineExceeded) && l.tls == nil && !l.dialed:
		m.refusals.refuse(causeTimeout, from, "err", err)
		m.meter.ended.WithLabelValues("stall").Inc()
	case errors.Is(err, os.ErrDeadlineExceeded):
		m.meter.ended.WithLabelValues("stall").Inc()
	case isAlert(err):
		m.refusals.refuse(causeTLS, from, "err", err)
		m.meter.ended.WithLabelValues("remote").Inc()
	default:
		m.meter.ended.WithLabelValues("remote").Inc()
	}
	m.log.Debug("peer stream ended", "conn", uint64(l.id), "class", classes[l.class], "addr", from.String(), "reason", why, "err", err)
}

// isAlert reports a fatal TLS alert of the other side: in TLS 1.3 a client
// learns only from its first read that its certificate was not accepted.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && strings.HasPrefix(op.Err.Error(), "tls: ")
}

// keepEvery is how often the ring, the certificate files and the gauges are
// looked at.
const keepEvery = time.Second

// keep does what must be done from time to time.
func (m *Mesh) keep(ctx context.Context) {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		m.recheck()
		queued := 0
		for _, l := range m.standing() {
			queued += l.out.queued()
		}
		m.meter.outbox.Set(float64(queued))
		m.meter.inbox.Set(float64(m.inbox.waiting()))
	}
}

// recheck follows the ring and the files, and ends the streams whose key or
// certificate no longer counts (I6).
func (m *Mesh) recheck() {
	changed, err := m.identity.refresh()
	if err != nil && m.once.first("refresh") {
		m.log.Error("new certificates rejected: the old ones stay in use", "err", err)
	}
	if !changed {
		return
	}
	m.meter.expiry.Set(float64(m.identity.expires().Unix()))
	for _, l := range m.standing() {
		if l.tls != nil && !m.identity.trusts(*l.tls) {
			m.meter.ended.WithLabelValues("key").Inc()
			l.cut("its key is no longer trusted")
		}
	}
}

// standing lists the links.
func (m *Mesh) standing() []*link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.links))
}
