package zmtp

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Dealer is one connection to a ROUTER. It does not reconnect: a replay that
// broke is asked for again by a new one.
type Dealer struct{ conn *conn }

// DialDealer connects and shakes hands, within ctx and HandshakeTimeout.
func DialDealer(ctx context.Context, addr string, opt Options) (*Dealer, error) {
	opt = opt.withDefaults()
	opt.Heartbeat = 0 // nobody would read the answers between two calls of Recv
	e, err := parseEndpoint(addr)
	if err == nil {
		err = e.dialable()
	}
	if err != nil {
		return nil, fmt.Errorf("dial dealer: %w", err)
	}
	d := net.Dialer{Timeout: opt.HandshakeTimeout, KeepAliveConfig: keepalive}
	nc, err := d.DialContext(ctx, e.network, e.address)
	if err != nil {
		return nil, fmt.Errorf("dial dealer: %w", err)
	}
	release := context.AfterFunc(ctx, func() { _ = nc.Close() })
	c, err := newConn(nc, "DEALER", opt)
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("dial dealer %s: %w", addr, err)
	}
	return &Dealer{conn: c}, nil
}

// Send writes one message, blocking at most sendTimeout. An empty
// delimiter, where the peer expects one, is the caller's to send.
func (d *Dealer) Send(frames ...[]byte) error {
	if err := d.conn.send(appendMessage(make([]byte, 0, messageSize(frames)), frames)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Recv returns the next message. After an error, ctx's included, the Dealer
// is of no more use. Only one goroutine may call it. The caller releases held.
func (d *Dealer) Recv(ctx context.Context) (frames [][]byte, held Held, err error) {
	release := context.AfterFunc(ctx, func() { _ = d.conn.nc.SetReadDeadline(time.Unix(1, 0)) })
	defer release()
	d.conn.bound(ctx, 0)
	for {
		it, err := d.conn.receive()
		if err != nil {
			d.conn.unbound()
			if ctx.Err() != nil {
				return nil, Held{}, ctx.Err()
			}
			return nil, Held{}, fmt.Errorf("receive: %w", err)
		}
		if it.command == "" {
			return it.frames, it.held, nil
		}
	}
}

// Close ends the connection.
func (d *Dealer) Close() error { return d.conn.nc.Close() }
