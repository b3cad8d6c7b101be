package proxy

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

var (
	errQueueFull = errors.New("too many requests are waiting")
	errQueueWait = errors.New("the request waited too long for a place")
)

// gate lets a number of requests in and a number wait, first come first
// served.
type gate struct {
	mu       sync.Mutex // guards below
	places   int
	queue    int
	inFlight int       // Invariant: at most places, but for those let in before places sank
	waiting  list.List // of chan struct{}, closed when a place is handed over
}

func newGate(places, queue int) *gate { return &gate{places: places, queue: max(queue, 0)} }

// acquire waits for a place, at most so long. The release function must be
// called once.
func (g *gate) acquire(ctx context.Context, most time.Duration) (release func(), err error) {
	g.mu.Lock()
	if g.inFlight < g.places {
		g.inFlight++
		g.mu.Unlock()
		return g.release, nil
	}
	if g.waiting.Len() >= g.queue {
		g.mu.Unlock()
		return nil, errQueueFull
	}
	turn := make(chan struct{})
	place := g.waiting.PushBack(turn)
	g.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	err = errQueueWait
	select {
	case <-turn:
		return g.release, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-turn: // handed over meanwhile
		return g.release, nil
	default:
		g.waiting.Remove(place)
		return nil, err
	}
}

// release hands the place to who waits longest.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	g.admitLocked()
}

// resize changes the numbers. Whoever is in or waits already, stays.
func (g *gate) resize(places, queue int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places, g.queue = places, max(queue, 0)
	g.admitLocked()
}

// admitLocked fills free places from the queue.
func (g *gate) admitLocked() {
	for g.inFlight < g.places && g.waiting.Len() > 0 {
		g.inFlight++
		close(g.waiting.Remove(g.waiting.Front()).(chan struct{}))
	}
}

func (g *gate) load() (inFlight, queued int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight, g.waiting.Len()
}
