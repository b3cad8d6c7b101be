package router

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/token"
)

// maxNotices bounds the dispatches whose blocks are not announced yet.
const maxNotices = 1024

// notice is a dispatch whose blocks its replica will soon hold.
type notice struct {
	id   crdt.StreamID
	keys *token.Keys
	hit  int // blocks believed cached where the prompt is computed
	atMs int64
}

// aftermath announces the blocks of dispatches while their requests are on
// their way: writing some hundred keys takes as long as the decision. The order
// is kept, and a decision sees what this peer announced of prompts that begin
// like its own, so it decides as if there were no queue.
type aftermath struct {
	announce func(*notice)
	late     func()        // told of a notice that found the queue full
	wake     chan struct{} // capacity 1
	waiting  atomic.Int32  // as n, to be read without mu

	work sync.Mutex // held while announcing; outside mu

	mu      sync.Mutex // guards below; never held while calling out
	running bool       // somebody empties the queue
	ring    [maxNotices]notice
	first   int
	n       int // the first one stays until it is announced
}

func newAftermath(announce func(*notice), late func()) *aftermath {
	return &aftermath{announce: announce, late: late, wake: make(chan struct{}, 1)}
}

// add takes a notice. If the queue is full, or nobody empties it, it is
// announced at once: what is announced may be joined in any order.
func (a *aftermath) add(n notice) {
	a.mu.Lock()
	if !a.running || a.n == maxNotices {
		full := a.running
		a.mu.Unlock()
		if full {
			a.late()
		}
		a.announce(&n)
		return
	}
	a.ring[(a.first+a.n)%maxNotices] = n
	a.n++
	a.waiting.Store(int32(a.n))
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// before makes sure that what concerns a prompt is announced. Mostly one atomic
// load. Keys are chained: prompts that share any block share the first.
func (a *aftermath) before(keys []radix.Key) {
	if a.waiting.Load() > 0 && len(keys) > 0 && a.concerns(keys[0]) {
		a.settle()
	}
}

func (a *aftermath) concerns(first radix.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.n {
		if keys := a.ring[(a.first+i)%maxNotices].keys.Keys; len(keys) > 0 && keys[0] == first {
			return true
		}
	}
	return false
}

// settle announces what waits now.
func (a *aftermath) settle() {
	a.work.Lock()
	defer a.work.Unlock()
	for range a.waiting.Load() {
		a.mu.Lock()
		n := a.ring[a.first]
		a.mu.Unlock()
		a.announce(&n)
		a.mu.Lock()
		a.ring[a.first] = notice{}
		a.first = (a.first + 1) % maxNotices
		a.n--
		a.waiting.Store(int32(a.n))
		a.mu.Unlock()
	}
}

// run empties the queue until ctx ends, and once more then.
func (a *aftermath) run(ctx context.Context) {
	a.follow(true)
	for {
		select {
		case <-a.wake:
			a.settle()
		case <-ctx.Done():
			a.follow(false)
			a.settle()
			return
		}
	}
}

func (a *aftermath) follow(running bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = running
}

// announced tells the index and the mesh of the blocks that a dispatch will
// leave.
func (p *Peer) announced(n *notice) {
	p.index.Predict(n.id, &index.Chain{Root: n.keys.Root, Keys: n.keys.Keys, Exact: n.keys.Scheme.Exact()}, n.atMs)
	p.mesh.predicted()
	if n.hit >= 0 {
		p.hits.add(n.keys.Keys, n.hit)
	}
}

// announce tells the mesh of a dispatch, and soon of the blocks it will leave.
// hit is how many of them are believed cached there; -1 if the prompt is
// computed elsewhere.
func (p *Peer) announce(t *ticket, hit int, now time.Time) {
	p.mesh.loadChanged(true)
	p.after.add(notice{id: t.cost.Replica, keys: t.keys, hit: hit, atMs: p.clock.ms(now)})
}
