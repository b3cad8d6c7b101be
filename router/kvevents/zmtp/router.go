package zmtp

import (
	"context"
	"fmt"
)

// Router answers requests of DEALER and REQ sockets.
type Router struct {
	*socket
	handle func(*Request)
}

// Request is one message a Router received. The delimiter a DEALER sends, or
// that REQ adds, is the first of its frames.
type Request struct {
	Identity []byte // the peer's own, or one of ours
	Frames   [][]byte

	conn *conn
}

// ListenRouter binds a ROUTER socket. handle runs on the connection's own
// goroutine: requests of one peer are answered one after the other.
func ListenRouter(addr string, opt Options, handle func(*Request)) (*Router, error) {
	s, ctx := newSocket("ROUTER", opt)
	r := &Router{socket: s, handle: handle}
	if err := r.listen(ctx, addr, r.serve); err != nil {
		r.stop()
		return nil, fmt.Errorf("listen router %s: %w", addr, err)
	}
	return r, nil
}

// Reply sends one message to the peer that asked. It blocks until the peer's
// window takes it, at most sendTimeout; after an error the connection
// is of no more use.
func (r *Request) Reply(frames ...[]byte) error {
	err := r.conn.send(appendMessage(make([]byte, 0, messageSize(frames)), frames))
	if err != nil {
		_ = r.conn.nc.Close()
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}

// serve reads requests of one peer.
func (r *Router) serve(_ context.Context, c *conn, id uint64) error {
	if len(c.identity) == 0 {
		c.identity = fmt.Appendf(nil, "\x00%d", id)
	}
	for {
		it, err := c.receive()
		if err != nil {
			return err
		}
		if it.command == "" {
			r.count(func(st *State) { st.Messages++ })
			r.handle(&Request{Identity: c.identity, Frames: it.frames, conn: c})
		}
	}
}
