package simulation

import (
	"slices"
	"time"

	"github.com/banyan-llm/banyan/router/admission"
	"github.com/banyan-llm/banyan/router/workingset"
)

// working is what peers know of the working set, and the conversations that
// wait for room (router/workingset, router/admission: the product's own). Who
// is turned away after limits.queue_timeout is taken to come again: it waits
// here without end.
type working struct {
	delay float64 // seconds that dispatches take to other peers
	peers []peerQueue
	uses  fifo[usage] // on their way to other peers
	pool  []workingset.Cache
	woken bool
	waits int // conversations that had to wait
}

// peerQueue is what one peer knows, and who waits there.
type peerQueue struct {
	rule  workingset.Rule
	queue *admission.Queue
}

// usage is a prompt that went to a replica.
type usage struct {
	at            float64
	peer, replica int
	keys          []uint64
}

func (r *run) newWorking() *working {
	cfg := &r.cfg
	if cfg.WorkingSet == 0 || pooled(cfg.Policy) {
		return nil
	}
	w := &working{delay: cfg.DispatchDelay}
	for range cfg.Peers {
		w.peers = append(w.peers, peerQueue{
			rule:  workingset.Rule{Set: workingset.New(cfg.Page), Share: cfg.WorkingSet, Pool: r.caches},
			queue: waitingLine(cfg),
		})
	}
	return w
}

// waitingLine is a queue that turns nobody away.
func waitingLine(cfg *Config) *admission.Queue {
	return admission.New(admission.Config{Limit: len(cfg.Workload.Requests)})
}

// wakeEvery is how often a peer looks after conversations that wait, seconds.
const wakeEvery = .1

// waits makes a job wait if it begins a conversation and the caches are full of
// what others use.
func (r *run) waits(now float64, i int) bool {
	w := r.working
	if w == nil {
		return false
	}
	r.hear(now)
	j := &r.jobs[i]
	d := &w.peers[j.peer]
	keys := r.views.read(j.req.Tokens, r.cfg.Page, r.whole(j)).Chain.Keys
	if !d.rule.Waits(keys, d.queue.Len() > 0, millis(now)) {
		return false
	}
	waiter, _, _ := d.queue.Push(clockOf(now), admission.Request{Cost: float64(j.req.Tokens)})
	waiter.Value = i
	w.waits++
	r.wakeLater(now)
	return true
}

// clockOf is virtual time as the queue reads it.
func clockOf(now float64) time.Time { return time.UnixMilli(millis(now)) }

// caches are those of the replicas that are there.
func (r *run) caches() []workingset.Cache {
	w := r.working
	w.pool = w.pool[:0]
	for k, e := range r.engines {
		if !r.down[k] {
			w.pool = append(w.pool, workingset.Cache{At: r.views.names[k], Tokens: int64(e.Stats().Blocks * r.cfg.Page)})
		}
	}
	return w.pool
}

func (r *run) wakeLater(now float64) {
	if !r.working.woken {
		r.working.woken = true
		r.arrivals.push(arrival{at: now + wakeEvery, job: wake})
	}
}

// wake is the arrival that is none.
const wake = -1

// wake lets in who has room, at the peer whose turn it is.
func (r *run) wake(now float64) {
	w := r.working
	w.woken = false
	r.hear(now)
	waiting := 0
	for p := range w.peers {
		d := &w.peers[p]
		for d.queue.Len() > 0 && d.rule.LetsIn(p, len(w.peers), millis(now), millis(now)) {
			i := d.queue.Pop(clockOf(now)).Value.(int)
			r.jobs[i].waited = now - r.jobs[i].arrived
			r.jobs[i].arrived = now
			r.place(now, i)
		}
		waiting += d.queue.Len()
	}
	if waiting > 0 {
		r.wakeLater(now)
	}
}

// use tells all peers where a prompt went.
func (r *run) use(now float64, j *job) {
	w := r.working
	if w == nil {
		return
	}
	u := usage{now, j.peer, j.replica, slices.Clone(r.whole(j))}
	w.peers[j.peer].rule.Set.Use(r.views.names[j.replica], u.keys, millis(now), millis(now))
	w.uses.push(u)
}

// hear lets arrive what other peers told.
func (r *run) hear(now float64) {
	w := r.working
	for w.uses.len() > 0 && w.uses.front().at+w.delay <= now {
		u := w.uses.pop()
		for p := range w.peers {
			if p != u.peer {
				w.peers[p].rule.Set.Use(r.views.names[u.replica], u.keys, millis(u.at), millis(now))
			}
		}
	}
}
