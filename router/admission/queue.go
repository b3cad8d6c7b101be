package admission

import (
	"container/heap"
	"time"
)

// Config bounds a Queue.
type Config struct {
	Classes     int // priority classes, at least 1
	Limit       int // waiters
	TenantLimit int // waiters of one tenant; 0: as Limit
}

// Request is who asks, and for how much.
type Request struct {
	Tenant   string
	Class    int       // 0 goes first; clamped
	Turn     bool      // it goes on with a conversation: before the tenant's new ones
	Cost     float64   // in tokens, about; less than 1 counts as 1
	Deadline time.Time // it is worthless afterwards
	// Early refuses it at once if it is not expected to be let in by then.
	Early bool
}

// Waiter is a request that waits.
type Waiter struct {
	Request
	Value any // the caller's own
	Since time.Time

	order        uint64
	flow         *flow
	before, next *Waiter // in its line of the flow
}

// late reports whether half of the time is over that the waiter has.
func (w *Waiter) late(now time.Time) bool {
	return !w.Deadline.IsZero() && now.Sub(w.Since) > w.Deadline.Sub(w.Since)/2
}

// Waiting reports whether the waiter is in its queue.
func (w *Waiter) Waiting() bool { return w.flow != nil }

// reliefEvery is how often another than the best class has its turn.
const reliefEvery = 16

// Queue holds waiters. Not safe for concurrent use.
type Queue struct {
	cfg     Config
	classes []class // by priority, best first
	waiting int
	tenants map[string]int // waiters of each, all classes
	pushed  uint64
	pops    uint64

	lastPop time.Time
	gap     float64 // seconds between pops while others wait, exponential mean
	gaps    int     // seen
}

// New returns an empty queue.
func New(cfg Config) *Queue {
	cfg.Classes = max(cfg.Classes, 1)
	if cfg.TenantLimit <= 0 || cfg.TenantLimit > cfg.Limit {
		cfg.TenantLimit = cfg.Limit
	}
	q := &Queue{cfg: cfg, classes: make([]class, cfg.Classes), tenants: map[string]int{}}
	for i := range q.classes {
		q.classes[i].flows = map[string]*flow{}
	}
	return q
}

// Len is the number of waiters.
func (q *Queue) Len() int { return q.waiting }

// Tenants is the number of tenants that wait.
func (q *Queue) Tenants() int { return len(q.tenants) }

// Class is the number of waiters of one class.
func (q *Queue) Class(i int) int { return q.classes[i].waiting }

// Oldest is when the waiter that came first came; zero if nobody waits.
// O(tenants).
func (q *Queue) Oldest() (at time.Time) {
	for i := range q.classes {
		if w := q.classes[i].first(); w != nil && (at.IsZero() || w.Since.Before(at)) {
			at = w.Since
		}
	}
	return at
}

// Resize changes Limit. Whoever waits already, stays.
func (q *Queue) Resize(limit int) {
	if q.cfg.TenantLimit == q.cfg.Limit || q.cfg.TenantLimit > limit {
		q.cfg.TenantLimit = limit
	}
	q.cfg.Limit = limit
}

// Refusal says why a request may not wait; a closed list.
type Refusal string

// The refusals.
const (
	Accepted Refusal = ""
	Full     Refusal = "full"     // A1
	Deadline Refusal = "deadline" // it would be let in too late
)

// Push makes a request wait. If the queue is full, the newest waiter of the
// tenant with most waiters in the worst class is displaced, if the request is
// better than that: of a better class, or of a tenant with fewer waiters.
// O(log tenants), O(tenants) when full.
func (q *Queue) Push(now time.Time, r Request) (w, displaced *Waiter, why Refusal) {
	r.Class = min(max(r.Class, 0), len(q.classes)-1)
	r.Cost = max(r.Cost, 1)
	if q.tenants[r.Tenant] >= q.cfg.TenantLimit {
		return nil, nil, Full
	}
	if r.Early && now.Add(q.Wait(r.Tenant, r.Class)).After(r.Deadline) {
		return nil, nil, Deadline
	}
	if q.waiting >= q.cfg.Limit {
		if displaced = q.victim(&r); displaced == nil {
			return nil, nil, Full
		}
		q.Remove(displaced)
	}
	if q.waiting == 0 {
		q.lastPop = time.Time{} // the time nobody waited says nothing of the pace
	}
	w = &Waiter{Request: r, Since: now, order: q.pushed}
	q.pushed++
	q.waiting++
	q.tenants[r.Tenant]++
	q.classes[r.Class].push(w, false)
	return w, displaced, Accepted
}

// victim is who gives way to r in a full queue; nil if nobody does.
func (q *Queue) victim(r *Request) *Waiter {
	for i := len(q.classes) - 1; i >= r.Class; i-- {
		c := &q.classes[i]
		if c.waiting == 0 {
			continue
		}
		biggest := c.biggest()
		if i > r.Class {
			return biggest.last()
		}
		own := 0
		if f := c.flows[r.Tenant]; f != nil {
			own = f.waiting
		}
		if biggest.waiting > own+1 {
			return biggest.last()
		}
		return nil
	}
	return nil
}

// Pop takes out who goes next. Waiters whose deadline is over are taken out on
// the way and not returned: their Waiting is false. Nil if nobody is left.
func (q *Queue) Pop(now time.Time) *Waiter {
	for q.waiting > 0 {
		w := q.next(now)
		if !w.Deadline.IsZero() && !now.Before(w.Deadline) {
			q.Remove(w)
			continue
		}
		q.pops++
		q.pace(now)
		q.classes[w.Class].charge(w)
		q.Remove(w)
		return w
	}
	return nil
}

// next is who goes next: of the best class, or now and then of that among the
// others where somebody waits longest. A3
func (q *Queue) next(now time.Time) *Waiter {
	var best *class
	for i := range q.classes {
		if c := &q.classes[i]; c.waiting > 0 {
			best = c
			break
		}
	}
	if (q.pops+1)%reliefEvery == 0 && best.waiting < q.waiting {
		best = q.longest(best)
	}
	return best.heap[0].next(now)
}

// longest is the class whose first waiter came first, but for one.
func (q *Queue) longest(except *class) (found *class) {
	var first *Waiter
	for i := range q.classes {
		c := &q.classes[i]
		if w := c.first(); c != except && w != nil && (first == nil || w.order < first.order) {
			found, first = c, w
		}
	}
	return found
}

// Remove takes a waiter out, if it still waits.
func (q *Queue) Remove(w *Waiter) {
	if w.flow == nil {
		return
	}
	q.classes[w.Class].remove(w)
	q.waiting--
	if q.tenants[w.Tenant]--; q.tenants[w.Tenant] == 0 {
		delete(q.tenants, w.Tenant)
	}
}

// Return puts back at the front of its line a waiter that Pop gave and that found
// no room after all. The bounds do not hold it up.
func (q *Queue) Return(w *Waiter) {
	if w.flow != nil {
		return
	}
	q.waiting++
	q.tenants[w.Tenant]++
	q.classes[w.Class].push(w, true)
}

// paceWeight is the weight of the newest gap between two pops, and minGaps how
// many it takes to say anything.
const (
	paceWeight = 1.0 / 16
	minGaps    = 8
)

// pace learns how fast the queue moves.
func (q *Queue) pace(now time.Time) {
	if !q.lastPop.IsZero() {
		gap := max(0, now.Sub(q.lastPop).Seconds())
		q.gaps++
		q.gap += (gap - q.gap) * max(paceWeight, 1/float64(q.gaps))
	}
	q.lastPop = now
}

// maxWait bounds what Wait says.
const maxWait = time.Hour

// Wait estimates how long a request would wait: those who go before it, by
// the pace of late. Zero while nothing is known.
func (q *Queue) Wait(tenant string, class int) time.Duration {
	if q.gaps < minGaps {
		return 0
	}
	class = min(max(class, 0), len(q.classes)-1)
	ahead := 0
	for i := range class {
		ahead += q.classes[i].waiting
	}
	c := &q.classes[class]
	own := 0
	if f := c.flows[tenant]; f != nil {
		own = f.waiting
	}
	ahead += min(c.waiting, (own+1)*len(c.heap)) // tenants take turns
	return time.Duration(min(float64(ahead)*q.gap, maxWait.Seconds()) * float64(time.Second))
}

// class is one priority: tenants by start tag.
type class struct {
	flows   map[string]*flow // also of tenants that wait no longer, while their tags lie ahead
	heap    flowHeap         // those that wait
	now     float64          // virtual time: the start tag of who went last
	waiting int
}

func (c *class) push(w *Waiter, front bool) {
	f := c.flows[w.Tenant]
	if f == nil {
		c.forget()
		f = &flow{tenant: w.Tenant, start: c.now}
		if front {
			f.start += w.Cost
		}
		c.flows[w.Tenant] = f
	}
	switch {
	case front:
		f.start -= w.Cost // it was charged
	case f.waiting == 0:
		f.start = max(f.start, c.now)
	}
	f.push(w, front)
	c.waiting++
	if f.waiting == 1 {
		heap.Push(&c.heap, f)
	} else if front {
		heap.Fix(&c.heap, f.at)
	}
}

// charge makes the tenant of a head pay for it.
func (c *class) charge(w *Waiter) {
	c.now = max(c.now, w.flow.start)
	w.flow.start += w.Cost
	heap.Fix(&c.heap, w.flow.at)
}

func (c *class) remove(w *Waiter) {
	f := w.flow
	f.remove(w)
	c.waiting--
	switch {
	case f.waiting > 0:
		heap.Fix(&c.heap, f.at) // ties go by the head's order
	default:
		heap.Remove(&c.heap, f.at)
		if f.start <= c.now {
			delete(c.flows, f.tenant)
		}
	}
}

// maxIdle bounds the tenants remembered beside those that wait. A6
const maxIdle = 1024

// forget drops the tags of tenants that do not wait when there are too many.
// O(tenants), once in maxIdle new ones.
func (c *class) forget() {
	if len(c.flows)-len(c.heap) < maxIdle {
		return
	}
	for name, f := range c.flows {
		if f.waiting == 0 {
			delete(c.flows, name)
		}
	}
}

// first is who came first; nil if nobody waits.
func (c *class) first() (first *Waiter) {
	for _, f := range c.heap {
		if w := f.oldest(); first == nil || w.order < first.order {
			first = w
		}
	}
	return first
}

func (c *class) biggest() *flow {
	biggest := c.heap[0]
	for _, f := range c.heap[1:] {
		if f.waiting > biggest.waiting || f.waiting == biggest.waiting && f.last().order > biggest.last().order {
			biggest = f
		}
	}
	return biggest
}
