package pick

import (
	"sync"
	"sync/atomic"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
)

// maxNotices bounds the dispatches whose blocks are not announced yet.
const maxNotices = 1024

// Notice is a dispatch whose blocks its replica will soon hold.
type Notice struct {
	Replica crdt.StreamID
	Chain   index.Chain
	Hit     int   // blocks believed cached there; -1: the prompt is computed elsewhere
	AtMs    int64 // of the peer's clock
}

// Announcer announces the blocks of dispatches while their requests are on
// their way: writing some hundred keys takes as long as the decision. The order
// is kept, and a decision sees what this peer announced of prompts that begin
// like its own, so it decides as if there were no queue.
type Announcer struct {
	announce func(*Notice)
	late     func()        // told of a notice that found the queue full
	wake     chan struct{} // capacity 1
	waiting  atomic.Int32  // as n, to be read without mu

	work sync.Mutex // held while announcing; outside mu

	mu      sync.Mutex // guards below; never held while calling out
	running bool       // somebody empties the queue
	ring    [maxNotices]Notice
	first   int
	n       int // the first one stays until it is announced
}

func NewAnnouncer(announce func(*Notice), late func()) *Announcer {
	return &Announcer{announce: announce, late: late, wake: make(chan struct{}, 1)}
}

// Add takes a notice. If the queue is full, or nobody empties it, it is
// announced at once: what is announced may be joined in any order.
func (a *Announcer) Add(n Notice) {
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

// Before makes sure that what concerns a prompt is announced. Mostly one atomic
// load. Keys are chained: prompts that share any block share the first.
func (a *Announcer) Before(keys []radix.Key) {
	if a.waiting.Load() > 0 && len(keys) > 0 && a.concerns(keys[0]) {
		a.Settle()
	}
}

func (a *Announcer) concerns(first radix.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.n {
		if keys := a.ring[(a.first+i)%maxNotices].Chain.Keys; len(keys) > 0 && keys[0] == first {
			return true
		}
	}
	return false
}

// Settle announces what waits now.
func (a *Announcer) Settle() {
	a.work.Lock()
	defer a.work.Unlock()
	for range a.waiting.Load() {
		a.mu.Lock()
		n := a.ring[a.first]
		a.mu.Unlock()
		a.announce(&n)
		a.mu.Lock()
		a.ring[a.first] = Notice{}
		a.first = (a.first + 1) % maxNotices
		a.n--
		a.waiting.Store(int32(a.n))
		a.mu.Unlock()
	}
}

// Wake fires, without blocking anybody, when a notice has been queued.
func (a *Announcer) Wake() <-chan struct{} { return a.wake }

// Serve says whether somebody calls Settle whenever Wake fires. While nobody
// does, notices are announced at once.
func (a *Announcer) Serve(running bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = running
}
