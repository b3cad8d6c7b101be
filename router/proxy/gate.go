package proxy

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/router/admission"
)

// Outcome is how a wait for room ended; a closed list, used as a metric label.
type Outcome string

// The outcomes.
const (
	WaitAdmitted  Outcome = "admitted"
	WaitFull      Outcome = "full"      // the queue was, or the tenant's part of it
	WaitDisplaced Outcome = "displaced" // it had to make way in a full queue
	WaitTimeout   Outcome = "timeout"   // Limits.QueueTimeout
	WaitDeadline  Outcome = "deadline"  // the client's own, reached or out of reach
	WaitLeft      Outcome = "left"      // the client went away
)

// Outcomes lists all of them.
var Outcomes = []Outcome{WaitAdmitted, WaitFull, WaitDisplaced, WaitTimeout, WaitDeadline, WaitLeft}

// shed is the error of a request that was not let in.
type shed struct {
	how    Outcome
	after  time.Duration // when to come again, about
	begins bool          // it waited to begin a conversation
}

func (s *shed) Error() string {
	switch {
	case s.how == WaitFull || s.how == WaitDisplaced:
		return "too many requests are waiting"
	case s.begins:
		return "a new conversation has to wait until those under way leave room in the KV caches"
	case s.how == WaitDeadline:
		return "there is no room for the request in the time it has"
	}
	return "the request waited too long for a place"
}

// maxPools bounds the queues kept while nobody waits in them.
const maxPools = 256

// tickEvery is how often waiters are looked after while nothing ends here:
// room may also come from the mesh.
const tickEvery = 10 * time.Millisecond

// gate bounds the requests in flight and makes others wait, per pool of
// replicas, in admission's order. While nobody waits it is one atomic
// operation on the way in and one on the way out.
//
// Order of locks: turns, mu.
type gate struct {
	room func(poolName) int // how many more requests its replicas take; nil: any number

	places   atomic.Int64
	inFlight atomic.Int64 // Invariant: at most places, but for those let in before places sank
	waiting  atomic.Int64 // in all queues

	turns sync.Mutex // one hands out turns at a time; held while room is called

	mu      sync.Mutex       // guards below; never held while calling out
	limits  admission.Config // of every pool's queue
	pools   map[poolName]*pool
	ticking bool
}

// poolName is a model, and whether what waits begins a conversation: those
// that go on do not wait behind it.
type poolName struct {
	model  string
	begins bool
}

// pool is the queue for the replicas of one model.
type pool struct {
	queue   *admission.Queue
	granted int // let in, and not seen in room yet
}

// turn is a waiter's end of its wait, and what it holds afterwards.
type turn struct {
	pool    poolName
	ask     admission.Request
	in      *pool
	waiter  *admission.Waiter // nil: it never waited
	over    chan struct{}     // closed when how is set
	how     Outcome
	granted bool // counted in pool.granted
}

func newGate(places int, limits admission.Config, room func(poolName) int) *gate {
	g := &gate{limits: limits, room: room, pools: map[poolName]*pool{}}
	g.places.Store(int64(places))
	return g
}

// resize changes the numbers. Whoever is in or waits already, stays.
func (g *gate) resize(places, queue int) {
	g.mu.Lock()
	g.limits.Limit = max(queue, 0)
	for _, p := range g.pools {
		p.queue.Resize(g.limits.Limit)
	}
	g.mu.Unlock()
	g.places.Store(int64(places))
	g.serve()
}

// pass takes a place if there is one and nobody waits: the usual way in. leave
// must follow.
func (g *gate) pass() bool { return g.waiting.Load() == 0 && g.take() }

// enter takes a place, or waits for one if there is none or others wait for
// the same pool. leave must follow unless it fails.
func (g *gate) enter(ctx context.Context, t *turn) error { return g.wait(ctx, t, true) }

// again gives a place back whose holder found no room, and waits for another.
// If it fails no place is held.
func (g *gate) again(ctx context.Context, t *turn) error {
	g.inFlight.Add(-1)
	return g.wait(ctx, t, false)
}

// settle is called when the holder of a turn has been counted in where room
// looks, or found none.
func (g *gate) settle(t *turn) {
	if !t.granted {
		return
	}
	g.mu.Lock()
	t.granted = false
	t.in.granted--
	g.mu.Unlock()
}

// leave gives a place back.
func (g *gate) leave() {
	g.inFlight.Add(-1)
	if g.waiting.Load() > 0 {
		g.serve()
	}
}

func (g *gate) take() bool {
	for {
		n := g.inFlight.Load()
		if n >= g.places.Load() {
			return false
		}
		if g.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// wait stands in line. If may, it goes through where nobody stands.
func (g *gate) wait(ctx context.Context, t *turn, may bool) error {
	err := g.line(t, may)
	if err != nil || t.over == nil {
		return err
	}
	if may { // else there was no room a moment ago
		g.serve()
	}
	timer := time.NewTimer(time.Until(t.ask.Deadline))
	defer timer.Stop()
	how := WaitTimeout
	if t.ask.Early {
		how = WaitDeadline
	}
	select {
	case <-t.over:
	case <-ctx.Done():
		how = WaitLeft
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.waiter.Waiting() {
		t.in.queue.Remove(t.waiter)
		g.waiting.Add(-1)
	}
	if t.how == "" { // or it was taken out for its deadline
		t.how = how
	}
	if t.how == WaitAdmitted {
		return nil
	}
	return t.shed()
}

// shed says that the request is not let in. Call it with mu.
func (t *turn) shed() error {
	return &shed{how: t.how, after: t.in.queue.Wait(t.ask.Tenant, t.ask.Class), begins: t.pool.begins}
}

// line puts a request into its pool's queue; t.over stays nil if it took a
// place instead.
func (g *gate) line(t *turn, may bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.poolLocked(t.pool)
	if p != t.in { // the other one was forgotten meanwhile
		t.in, t.waiter = p, nil
	}
	t.over, t.how = nil, ""
	if may && p.queue.Len() == 0 && g.take() {
		return nil
	}
	t.over = make(chan struct{})
	if t.waiter != nil {
		p.queue.Return(t.waiter)
		g.waiting.Add(1)
		g.tickLocked()
		return nil
	}
	w, displaced, why := p.queue.Push(time.Now(), t.ask)
	if why != admission.Accepted {
		t.how = Outcome(why)
		return t.shed()
	}
	w.Value, t.waiter = t, w
	if displaced != nil {
		displaced.Value.(*turn).end(WaitDisplaced)
	} else {
		g.waiting.Add(1)
	}
	g.tickLocked()
	return nil
}

// behind reports whether conversations wait to begin with a model.
func (g *gate) behind(model string) bool {
	if g.waiting.Load() == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pools[poolName{model, true}]
	return p != nil && p.queue.Len() > 0
}

func (t *turn) end(how Outcome) {
	t.how = how
	close(t.over)
}

func (g *gate) poolLocked(name poolName) *pool {
	p := g.pools[name]
	if p == nil {
		if len(g.pools) >= maxPools {
			for other, q := range g.pools {
				if q.queue.Len() == 0 && q.granted == 0 {
					delete(g.pools, other)
				}
			}
		}
		p = &pool{queue: admission.New(g.limits)}
		g.pools[name] = p
	}
	return p
}

// serve lets in whom there is room for. Which pool comes first is chance.
func (g *gate) serve() {
	g.turns.Lock()
	defer g.turns.Unlock()
	for _, name := range g.lines() {
		room := math.MaxInt
		if g.room != nil {
			room = g.room(name)
		}
		g.grant(name, room, time.Now())
	}
}

// lines names the pools that somebody waits for.
func (g *gate) lines() (names []poolName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, p := range g.pools {
		if p.queue.Len() > 0 {
			names = append(names, name)
		}
	}
	return names
}

func (g *gate) grant(name poolName, room int, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pools[name] // somebody waits for it, or did
	if p == nil {
		return
	}
	for p.granted < room && p.queue.Len() > 0 && g.take() {
		before := p.queue.Len()
		w := p.queue.Pop(now)
		g.waiting.Add(int64(p.queue.Len() - before))
		if w == nil {
			g.inFlight.Add(-1)
			return
		}
		t := w.Value.(*turn)
		p.granted++
		t.granted = true
		t.end(WaitAdmitted)
	}
}

// tickLocked makes sure that somebody looks after the waiters.
func (g *gate) tickLocked() {
	if g.ticking {
		return
	}
	g.ticking = true
	time.AfterFunc(tickEvery, func() {
		g.serve()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ticking = false
		if g.waiting.Load() > 0 {
			g.tickLocked()
		}
	})
}

// lineup is what stands in the queues.
type lineup struct {
	classes []int
	tenants int
	oldest  time.Time
}

func (g *gate) lineup() lineup {
	l := lineup{classes: make([]int, max(g.limits.Classes, 1))}
	if g.waiting.Load() == 0 {
		return l
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pools {
		for i := range l.classes {
			l.classes[i] += p.queue.Class(i)
		}
		l.tenants += p.queue.Tenants()
		if at := p.queue.Oldest(); !at.IsZero() && (l.oldest.IsZero() || at.Before(l.oldest)) {
			l.oldest = at
		}
	}
	return l
}
