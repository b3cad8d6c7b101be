package demo

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	healthEvery = 100 * time.Millisecond // between two looks at a backend's /readyz
	dialTimeout = 5 * time.Second        // a dead process refuses at once, a busy machine is slow
)

// balancer is a plain L4 round robin: it copies bytes and asks /readyz, and
// knows nothing of what passes through. A refused backend is skipped.
type balancer struct {
	listener net.Listener
	client   http.Client

	mu       sync.Mutex // guards below
	backends []*backend
	next     int
	conns    map[net.Conn]struct{}

	wg sync.WaitGroup
}

type backend struct {
	address string
	up      bool
}

func newBalancer() (*balancer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &balancer{listener: l, client: http.Client{Timeout: time.Second}, conns: map[net.Conn]struct{}{}}, nil
}

func (b *balancer) url() string { return "http://" + b.listener.Addr().String() }

// add puts a backend behind the balancer; it gets traffic once it is ready.
func (b *balancer) add(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, &backend{address: address})
}

// run serves until ctx ends, then closes every connection and waits.
func (b *balancer) run(ctx context.Context) {
	b.wg.Go(func() { b.check(ctx) })
	b.wg.Go(func() {
		for {
			c, err := b.listener.Accept()
			if err != nil {
				return
			}
			b.wg.Go(func() { b.serve(c) })
		}
	})
	<-ctx.Done()
	b.listener.Close()
	b.mu.Lock()
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// check keeps the backends' state until ctx ends.
func (b *balancer) check(ctx context.Context) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		b.mu.Lock()
		list := append([]*backend(nil), b.backends...)
		b.mu.Unlock()
		for _, be := range list {
			res, err := b.client.Get("http://" + be.address + "/readyz")
			up := err == nil && res.StatusCode == http.StatusOK
			if err == nil {
				res.Body.Close()
			}
			b.mu.Lock()
			be.up = up
			b.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pick returns the next backend in turn, those that are up first.
func (b *balancer) pick(tried map[*backend]bool) *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wantUp := range []bool{true, false} {
		for range b.backends {
			be := b.backends[b.next%len(b.backends)]
			b.next++
			if be.up == wantUp && !tried[be] {
				return be
			}
		}
	}
	return nil
}

// serve copies one client connection to the first backend that accepts.
func (b *balancer) serve(client net.Conn) {
	defer client.Close()
	tried := map[*backend]bool{}
	for {
		be := b.pick(tried)
		if be == nil {
			return
		}
		tried[be] = true
		upstream, err := net.DialTimeout("tcp", be.address, dialTimeout)
		if err != nil {
			b.mu.Lock()
			be.up = false
			b.mu.Unlock()
			continue
		}
		b.copy(client, upstream)
		return
	}
}

func (b *balancer) copy(client, upstream net.Conn) {
	b.track(client, true)
	b.track(upstream, true)
	defer b.track(client, false)
	defer b.track(upstream, false)
	defer upstream.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(upstream, client)
		_ = upstream.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(client, upstream)
	// A killed backend must look killed to the client, half-written or not.
	client.Close()
	wg.Wait()
}

func (b *balancer) track(c net.Conn, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if on {
		b.conns[c] = struct{}{}
	} else {
		delete(b.conns, c)
	}
}
