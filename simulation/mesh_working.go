package simulation

import (
	"time"

	"github.com/banyan-llm/banyan/router/admission"
	"github.com/banyan-llm/banyan/router/workingset"
)

// gateMs is how often a peer looks after those that wait, as router/proxy does.
const gateMs = 10

// mustWait puts a request in line if it begins a conversation for which there is
// no room. Who was let in waits no more, nor does a retry.
func (m *meshRun) mustWait(d *desk, i int) bool {
	t, now := &m.trips[i], d.peer.now()
	if t.letIn || !d.rule.Waits(t.prompt.keys, d.queue.Len() > 0, now) {
		return false
	}
	w, _, _ := d.queue.Push(time.UnixMilli(now), admission.Request{Cost: float64(m.books.jobs[i].req.Tokens)})
	w.Value = i
	m.waited++
	m.tendLater(d)
	return true
}

// caches are those of the replicas that take requests, as large as the peer was
// told.
func (m *meshRun) caches(d *desk) []workingset.Cache {
	d.pool = d.pool[:0]
	for _, g := range m.fleet {
		if g.serves(d.peer) {
			d.pool = append(d.pool, workingset.Cache{At: g.stream, Tokens: d.peer.loads.CacheTokens(g.stream)})
		}
	}
	return d.pool
}

// tendLater sees to it that somebody looks after those that wait.
func (m *meshRun) tendLater(d *desk) {
	if d.tending {
		return
	}
	d.tending = true
	m.after(gateMs, func() {
		d.peer.do(func() {
			d.tending = false
			m.tend(d)
		})
	})
}

// tend lets the next one begin if there is room, one after the other: the last one
// must have been sent.
func (m *meshRun) tend(d *desk) {
	now := d.peer.now()
	m.look(d)
	ages := d.silences.Ages(now)
	if d.let == nil && d.queue.Len() > 0 && d.rule.LetsIn(ages.Rank, ages.Peers, now, d.peer.wall()) {
		i := d.queue.Pop(time.UnixMilli(now)).Value.(int)
		d.let = &m.trips[i]
		d.let.letIn = true
		m.pick(i)
	}
	if d.queue.Len() > 0 {
		m.tendLater(d)
	}
}

// sent notes that a request went to a replica, or that there is none for it.
func (d *desk) sent(t *trip) {
	if d.let == t {
		d.let = nil
	}
}
