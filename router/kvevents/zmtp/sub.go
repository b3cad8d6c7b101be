package zmtp

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Kind says what a Message is.
type Kind uint8

// The kinds.
const (
	Data Kind = iota // frames from a publisher
	Up               // a connection came up; nothing of it was delivered yet
	Down             // a connection ended; nothing more of it will come
)

// Message is what Recv returns: frames, or the notice that a connection came
// or went.
type Message struct {
	Kind   Kind
	Frames [][]byte  // Data only; owned by the receiver
	Conn   uint64    // numbers the socket's connections from 1; never reused
	Remote string    // the publisher's address
	At     time.Time // when the last byte was read
	Held   Held      // for the receiver to release
}

// Sub receives from publishers.
type Sub struct {
	*socket
	prefix string
	queue  *queue[Message]
	done   <-chan struct{}
}

// DialSub subscribes to one publisher. It returns at once, whether or not the
// publisher is there, and keeps the connection up; a malformed endpoint shows
// in State and as an error of Recv.
func DialSub(endpoint, prefix string, opt Options) *Sub {
	s, ctx := newSub(prefix, opt)
	e, err := parseEndpoint(endpoint)
	if err == nil {
		err = e.dialable()
	}
	if err != nil {
		s.failed(err)
		s.stop()
		return s
	}
	s.wg.Go(func() { s.redial(ctx, e, s.serve) })
	return s
}

// ListenSub binds a SUB socket that any number of publishers dial.
func ListenSub(addr, prefix string, opt Options) (*Sub, error) {
	s, ctx := newSub(prefix, opt)
	if err := s.listen(ctx, addr, s.serve); err != nil {
		s.stop()
		return nil, fmt.Errorf("listen sub %s: %w", addr, err)
	}
	return s, nil
}

// newSub makes a Sub without connections.
func newSub(prefix string, opt Options) (*Sub, context.Context) {
	s, ctx := newSocket("SUB", opt)
	return &Sub{socket: s, prefix: prefix, queue: newQueue[Message](s.opt.Queue, queueBytes), done: ctx.Done()}, ctx
}

// Recv returns the next message or notice. Only one goroutine may call it.
// When nobody receives, the publishers are slowed down by TCP until their own
// queues drop. After Close it returns ErrClosed.
func (s *Sub) Recv(ctx context.Context) (Message, error) {
	for {
		var buf [1]Message
		if got := s.queue.tryTake(buf[:0], 1); len(got) == 1 {
			return got[0], nil
		}
		select {
		case <-ctx.Done():
			return Message{}, ctx.Err()
		case <-s.done:
			return Message{}, ErrClosed
		case <-s.queue.filled:
		}
	}
}

// serve subscribes on one connection and delivers what comes (I4).
func (s *Sub) serve(ctx context.Context, c *conn, id uint64) error {
	m := Message{Conn: id, Remote: c.nc.RemoteAddr().String(), At: time.Now()}
	subscribe := appendFrame(nil, 0, append([]byte{1}, s.prefix...))
	if c.minor >= 1 {
		subscribe = appendCommand(nil, "SUBSCRIBE", []byte(s.prefix))
	}
	m.Kind = Up
	if err := s.queue.put(ctx, m, 0); err != nil {
		return err
	}
	c.bound(ctx, s.opt.longMessage)
	defer c.unbound()
	err := c.send(subscribe)
	for err == nil {
		var it item
		if it, err = c.receive(); err == nil && it.command == "" {
			err = s.deliver(ctx, m, it)
		}
	}
	m.Kind, m.At = Down, time.Now()
	if putErr := s.queue.put(ctx, m, 0); putErr != nil {
		return putErr
	}
	return err
}

// deliver queues one message of connection m.
func (s *Sub) deliver(ctx context.Context, m Message, it item) error {
	m.Kind, m.Frames, m.Held, m.At = Data, it.frames, it.held, time.Now()
	n := 0
	for _, f := range it.frames {
		n += len(f)
	}
	s.count(func(st *State) {
		st.Messages++
		st.Bytes += uint64(n)
	})
	err := s.queue.put(ctx, m, n)
	if err != nil {
		it.held.Release()
	}
	return err
}

// Close ends all connections at once and waits for every goroutine (I5). What is
// queued is dropped and gives its room back. It may be called more than once, by
// anybody but who is in Recv.
func (s *Sub) Close() error {
	err := s.socket.Close()
	for _, m := range s.queue.tryTake(nil, math.MaxInt) {
		m.Held.Release()
	}
	return err
}
