package zmtp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// heartbeatsMissed is how many silent heartbeat intervals end a connection.
const heartbeatsMissed = 3

// conn is one connection after its handshake. One goroutine receives; any
// goroutine may send.
type conn struct {
	nc       net.Conn
	dec      decoder // receiving goroutine only
	minor    byte    // peer's ZMTP 3.x
	identity []byte  // peer's, if it sent one
	opt      Options
	longest  time.Duration // for a long message to arrive, once it has room

	wmu sync.Mutex // one message is written whole; held across the write, which has a deadline or ends with the connection
}

// newConn runs the handshake under its deadline.
func newConn(nc net.Conn, socketType string, opt Options) (*conn, error) {
	c := &conn{nc: nc, opt: opt, dec: decoder{
		r:        bufio.NewReaderSize(nc, readBufferBytes),
		maxBytes: opt.MaxBytes,
	}}
	if err := nc.SetDeadline(time.Now().Add(opt.HandshakeTimeout)); err != nil {
		return nil, err
	}
	if err := c.handshake(socketType, opt.Identity); err != nil {
		return nil, err
	}
	return c, nc.SetDeadline(time.Time{})
}

// bound makes messages take room of the socket's, until ctx ends. longest is what
// a long message has to arrive once it has room; 0: the caller sees to that.
func (c *conn) bound(ctx context.Context, longest time.Duration) {
	if c.opt.Room == nil {
		return
	}
	c.longest = longest
	c.dec.room = func(n int64) (Held, error) {
		if err := c.opt.Room.Acquire(ctx, n); err != nil {
			return Held{}, err
		}
		if c.isLong(n) {
			_ = c.nc.SetReadDeadline(time.Now().Add(longest))
		}
		return Held{c.opt.Room, n}, nil
	}
}

// isLong reports whether a message that takes so much room has longest to arrive.
func (c *conn) isLong(room int64) bool { return c.longest > 0 && room > smallBytes+messageOverhead }

// unbound gives back what a message holds that will not be whole.
func (c *conn) unbound() {
	c.dec.held.Release()
	c.dec.held = Held{}
}

// receive returns the next message, or a command other than the heartbeat's.
func (c *conn) receive() (item, error) {
	for {
		if c.beats() && c.dec.r.Buffered() == 0 {
			_ = c.nc.SetReadDeadline(c.silentUntil())
		}
		it, err := c.dec.next()
		if err != nil {
			return item{}, err
		}
		if c.isLong(it.held.bytes) {
			_ = c.nc.SetReadDeadline(c.silentUntil())
		}
		switch it.command {
		case "PING":
			if err := c.pong(it.body); err != nil {
				return item{}, err
			}
		case "PONG":
		case "ERROR":
			return item{}, errors.New("the engine ended it with an error")
		default:
			return it, nil
		}
	}
}

// silentUntil is how long the peer may say nothing: for ever without heartbeats.
func (c *conn) silentUntil() time.Time {
	if !c.beats() {
		return time.Time{}
	}
	return time.Now().Add(heartbeatsMissed * c.opt.Heartbeat)
}

// pong answers a PING: its context comes back, its TTL does not.
func (c *conn) pong(body []byte) error {
	if len(body) < 2 || len(body) > 2+maxPingContextSize {
		return fmt.Errorf("%w: PING of %d bytes", errCommand, len(body))
	}
	return c.send(appendCommand(nil, "PONG", body[2:]))
}

// send writes wire bytes under the send deadline.
func (c *conn) send(b []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_ = c.nc.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, err := c.nc.Write(b)
	return err
}

// sendBatch writes several messages at once, waiting as long as the peer
// takes: the queue behind it is what is bounded. It consumes the slice.
func (c *conn) sendBatch(batch [][]byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_ = c.nc.SetWriteDeadline(time.Time{})
	_, err := (*net.Buffers)(&batch).WriteTo(c.nc)
	return err
}

// beats reports whether this connection is watched by heartbeats.
func (c *conn) beats() bool { return c.opt.Heartbeat > 0 && c.minor >= 1 }

// heartbeat sends PINGs until ctx ends.
func (c *conn) heartbeat(ctx context.Context) {
	ttl := min(heartbeatsMissed*c.opt.Heartbeat/(100*time.Millisecond), 65535)
	ping := appendCommand(nil, "PING", binary.BigEndian.AppendUint16(nil, uint16(ttl)))
	t := time.NewTicker(c.opt.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if c.send(ping) != nil {
				_ = c.nc.Close()
				return
			}
		}
	}
}
