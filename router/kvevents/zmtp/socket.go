package zmtp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// ErrClosed is what a closed socket answers.
var ErrClosed = errors.New("zmtp: socket closed")

// State says how a socket's connections are.
type State struct {
	Up        bool      // dialing: the handshake is done; listening: bound
	Since     time.Time // when Up last changed
	LastError string    // why the last connection or attempt ended
	Connects  uint64    // handshakes completed since the start
	Failures  uint64    // attempts and connections that ended with an error
	Refused   uint64    // connections turned away at MaxConns
	Conns     int       // connections now
	Messages  uint64    // received
	Bytes     uint64    // received, frames only
}

// Reconnects is how often a dialing socket came up again.
func (s State) Reconnects() uint64 { return max(s.Connects, 1) - 1 }

// socket is what all sockets share: their connections' life and State.
type socket struct {
	kind string // ZMTP socket type
	opt  Options
	stop context.CancelFunc
	ln   net.Listener   // listening sockets only
	wg   sync.WaitGroup // every goroutine of the socket (I5)

	mu       sync.Mutex
	state    State
	lastConn uint64
	endLast  context.CancelFunc // ends connection lastConn
}

// newSocket makes a socket whose goroutines run under the returned context.
func newSocket(kind string, opt Options) (*socket, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	return &socket{kind: kind, opt: opt.withDefaults(), stop: stop, state: State{Since: time.Now()}}, ctx
}

// keepalive finds a peer that vanished without a word within about a minute.
var keepalive = net.KeepAliveConfig{Enable: true, Idle: 20 * time.Second, Interval: 10 * time.Second, Count: 4}

// listen binds; serve runs for every connection in its own goroutine.
func (s *socket) listen(ctx context.Context, addr string, serve func(context.Context, *conn, uint64) error) error {
	e, err := parseEndpoint(addr)
	if err != nil {
		return err
	}
	if e.network == "unix" {
		_ = os.Remove(e.address) // a socket file left behind; fails harmlessly otherwise
	}
	lc := net.ListenConfig{KeepAliveConfig: keepalive}
	if s.ln, err = lc.Listen(ctx, e.network, e.address); err != nil {
		return err
	}
	s.state.Up = true
	s.wg.Go(func() { s.accept(ctx, serve) })
	return nil
}

// accept takes connections until the listener closes.
func (s *socket) accept(ctx context.Context, serve func(context.Context, *conn, uint64) error) {
	room := make(chan struct{}, s.opt.MaxConns)
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			if ctx.Err() != nil || !s.pause(ctx, s.opt.MinBackoff) {
				return
			}
			continue // out of file descriptors, or an aborted connection
		}
		select {
		case room <- struct{}{}:
			s.wg.Go(func() {
				defer func() { <-room }()
				s.run(ctx, nc, serve)
			})
		default:
			s.count(func(st *State) { st.Refused++ })
			_ = nc.Close()
		}
	}
}

// redial keeps one connection to e up until ctx ends.
func (s *socket) redial(ctx context.Context, e endpoint, serve func(context.Context, *conn, uint64) error) {
	wait := s.opt.MinBackoff
	d := net.Dialer{Timeout: s.opt.HandshakeTimeout, KeepAliveConfig: keepalive}
	for ctx.Err() == nil {
		begin := time.Now()
		nc, err := d.DialContext(ctx, e.network, e.address)
		if err != nil {
			s.failed(err)
		} else {
			s.run(ctx, nc, serve)
		}
		if time.Since(begin) > s.opt.MaxBackoff {
			wait = s.opt.MinBackoff // it had worked for a while
		}
		if !s.pause(ctx, jitter(wait)) {
			return
		}
		wait = min(2*wait, s.opt.MaxBackoff)
	}
}

// jitter spreads d over [d/2, 3d/2).
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// pause waits; false when ctx ended.
func (s *socket) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// run handles one connection from handshake to end.
func (s *socket) run(ctx context.Context, nc net.Conn, serve func(context.Context, *conn, uint64) error) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer func() {
		cancel()
		release()
		_ = nc.Close()
	}()
	c, err := newConn(nc, s.kind, s.opt)
	if err != nil {
		s.failed(err)
		return
	}
	if c.beats() {
		s.wg.Go(func() { c.heartbeat(ctx) })
	}
	id := s.connected(cancel)
	err = serve(ctx, c, id)
	s.disconnected(err)
}

// connected counts a finished handshake and numbers the connection, which end
// ends.
func (s *socket) connected(end context.CancelFunc) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Connects++
	s.state.Conns++
	s.setUpLocked(true)
	s.lastConn++
	s.endLast = end
	return s.lastConn
}

// Stands reports whether connection id is up and the newest.
func (s *socket) Stands(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastConn == id && s.state.Conns > 0
}

// HangUp ends connection id if it is the newest. A socket that dials makes
// another one.
func (s *socket) HangUp(id uint64) {
	s.mu.Lock()
	end := s.endLast
	if s.lastConn != id {
		end = nil
	}
	s.mu.Unlock()
	if end != nil {
		end()
	}
}

// disconnected counts a connection's end.
func (s *socket) disconnected(err error) {
	s.mu.Lock()
	s.state.Conns--
	if s.ln == nil {
		s.setUpLocked(false)
	}
	s.mu.Unlock()
	s.failed(err)
}

// failed records why an attempt or connection ended.
func (s *socket) failed(err error) {
	if err == nil {
		return
	}
	s.count(func(st *State) {
		st.Failures++
		st.LastError = err.Error()
	})
}

// setUpLocked changes Up and stamps the change.
func (s *socket) setUpLocked(up bool) {
	if s.state.Up != up {
		s.state.Up, s.state.Since = up, time.Now()
	}
}

// count changes the state under its lock.
func (s *socket) count(fn func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.state)
}

// State returns a copy of the socket's state.
func (s *socket) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Addr is the bound address; nil for a socket that dials.
func (s *socket) Addr() net.Addr {
	if s.ln == nil {
		return nil
	}
	return s.ln.Addr()
}

// Close ends all connections at once and waits for every goroutine (I5).
// What is queued is dropped. It may be called more than once.
func (s *socket) Close() error {
	s.stop()
	if s.ln != nil {
		_ = s.ln.Close()
	}
	s.wg.Wait()
	s.count(func(st *State) { st.Up = false })
	return nil
}
