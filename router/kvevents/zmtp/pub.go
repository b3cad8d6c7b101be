package zmtp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// Pub publishes messages to subscribers.
type Pub struct {
	*socket

	sent    atomic.Uint64
	dropped atomic.Uint64

	pmu  sync.Mutex // guards subs; never held across I/O
	subs map[*subscriber]struct{}
}

// PubStats counts what a Pub did.
type PubStats struct {
	Sent    uint64 // messages queued, once per subscriber
	Dropped uint64 // messages a full subscriber's queue did not take
}

// ListenPub binds a PUB socket at addr.
func ListenPub(addr string, opt Options) (*Pub, error) {
	p, ctx := newPub(opt)
	if err := p.listen(ctx, addr, p.serve); err != nil {
		p.stop()
		return nil, fmt.Errorf("listen pub %s: %w", addr, err)
	}
	return p, nil
}

// DialPub makes a PUB socket that dials, as engines do whose endpoint names a
// host. It returns at once and keeps the connection up.
func DialPub(addr string, opt Options) (*Pub, error) {
	e, err := parseEndpoint(addr)
	if err == nil {
		err = e.dialable()
	}
	if err != nil {
		return nil, fmt.Errorf("dial pub: %w", err)
	}
	p, ctx := newPub(opt)
	p.wg.Go(func() { p.redial(ctx, e, p.serve) })
	return p, nil
}

// newPub makes a Pub without connections.
func newPub(opt Options) (*Pub, context.Context) {
	s, ctx := newSocket("PUB", opt)
	return &Pub{socket: s, subs: make(map[*subscriber]struct{})}, ctx
}

// Send queues a message for every subscriber whose prefix matches the first
// frame. It never blocks (I2) and copies the frames. O(subscribers).
func (p *Pub) Send(frames ...[]byte) {
	var topic, wire []byte
	if len(frames) > 0 {
		topic = frames[0]
	}
	p.pmu.Lock()
	defer p.pmu.Unlock()
	for s := range p.subs {
		if !s.wants(topic) {
			continue
		}
		if wire == nil {
			wire = appendMessage(make([]byte, 0, messageSize(frames)), frames)
		}
		if s.queue.tryPut(wire, len(wire)) {
			p.sent.Add(1)
		} else {
			p.dropped.Add(1)
		}
	}
}

// Subscribers counts connections that subscribed to something.
func (p *Pub) Subscribers() int {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	n := 0
	for s := range p.subs {
		if s.subscribed() {
			n++
		}
	}
	return n
}

// Stats returns the counters.
func (p *Pub) Stats() PubStats {
	return PubStats{Sent: p.sent.Load(), Dropped: p.dropped.Load()}
}

// serve runs one subscriber: this goroutine reads its subscriptions, another
// writes its queue.
func (p *Pub) serve(ctx context.Context, c *conn, _ uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &subscriber{prefixes: make(map[string]int), queue: newQueue[[]byte](p.opt.Queue, queueBytes)}
	p.pmu.Lock()
	p.subs[s] = struct{}{}
	p.pmu.Unlock()
	defer func() {
		p.pmu.Lock()
		delete(p.subs, s)
		p.pmu.Unlock()
	}()
	p.wg.Go(func() {
		s.write(ctx, c)
		_ = c.nc.Close()
	})
	for {
		it, err := c.receive()
		if err != nil {
			return err
		}
		if err := s.control(it); err != nil {
			return err
		}
	}
}

// subscriber is one connection of a Pub.
type subscriber struct {
	queue *queue[[]byte] // messages in wire form, shared between subscribers

	mu       sync.Mutex
	prefixes map[string]int // prefix -> times subscribed
}

// control handles a subscription, as a 3.1 command or a 3.0 message.
func (s *subscriber) control(it item) error {
	switch {
	case it.command == "SUBSCRIBE":
		return s.subscribe(string(it.body))
	case it.command == "CANCEL":
		s.cancel(string(it.body))
	case it.command != "":
		return nil // an extension of the protocol we do not know
	case len(it.frames) == 1 && len(it.frames[0]) > 0 && it.frames[0][0] == 1:
		return s.subscribe(string(it.frames[0][1:]))
	case len(it.frames) == 1 && len(it.frames[0]) > 0 && it.frames[0][0] == 0:
		s.cancel(string(it.frames[0][1:]))
	}
	return nil // XSUB may send messages of its own: they are nobody's
}

// subscribe adds a prefix, counting repeats.
func (s *subscriber) subscribe(prefix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(prefix) > maxPrefixBytes || s.prefixes[prefix] == 0 && len(s.prefixes) >= maxSubscriptions {
		return fmt.Errorf("too many or too long subscriptions: %d, %d bytes", len(s.prefixes), len(prefix))
	}
	s.prefixes[prefix]++
	return nil
}

// cancel takes one subscription of a prefix back.
func (s *subscriber) cancel(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prefixes[prefix]--; s.prefixes[prefix] <= 0 {
		delete(s.prefixes, prefix)
	}
}

// wants reports whether a topic matches a subscription. O(prefixes).
func (s *subscriber) wants(topic []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix := range s.prefixes {
		if strings.HasPrefix(string(topic), prefix) {
			return true
		}
	}
	return false
}

// subscribed reports whether there is any subscription.
func (s *subscriber) subscribed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.prefixes) > 0
}

// write sends the queue until ctx or the connection ends.
func (s *subscriber) write(ctx context.Context, c *conn) {
	batch := make([][]byte, 0, maxWriteBatch)
	for {
		var err error
		if batch, err = s.queue.take(ctx, batch[:0], maxWriteBatch); err != nil {
			return
		}
		if c.sendBatch(batch) != nil {
			return
		}
	}
}
