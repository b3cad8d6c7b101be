package simulation

import (
	"slices"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// Times of clients and their balancer, ms.
const (
	sweepMs   = 50     // how soon a client notices that its peer is gone
	againMs   = 200    // between two tries when nobody can serve
	giveUpMs  = 60_000 // of tries; then a request has failed
	healthMs  = 2_000  // a balancer takes a silent peer out after this
	clientTry = 2      // times a client sends a request
)

// trip is one request's way from its client through a peer to an engine.
type trip struct {
	prompt    prompt
	peer      *faultPeer // nil: at none
	engine    *meshEngine
	tried     *meshEngine // the one that failed it
	id        uint64      // of the model's request
	sent      int64       // ms of the dispatch
	first     int64       // ms of the first arrival
	clients   int         // times its client sent it
	tries     int         // dispatches
	matched   int         // tokens believed cached at its replica
	confirmed int         // blocks that events vouched for there
	cost      load.Cost   // of the dispatch
	letIn     bool        // it has waited to begin, or need not
	source    *meshEngine // its engine is told to fetch from; nil: from none
	fetch     pick.Fetch
	began     int64 // ms of its first token
	streaming bool
	over      bool
}

// arrive is a client that sends a request, or sends it again.
func (m *meshRun) arrive(i int) {
	j, t := &m.books.jobs[i], &m.trips[i]
	if t.first == 0 {
		t.first = m.now
		j.arrived = m.seconds()
		j.keys = j.req.AppendKeys(nil, m.books.cfg.Page)
		t.prompt = m.library.promptOf(j.keys[:min(len(j.keys), j.req.Tokens/m.books.cfg.Page)])
		if limit := m.books.cfg.Workload.Concurrency; limit > 0 && m.books.flying >= limit {
			m.books.waiting = append(m.books.waiting, i)
			return
		}
		m.enter(i)
		return
	}
	m.toPeer(i)
}

// enter lets a request into the fleet.
func (m *meshRun) enter(i int) {
	m.books.flying++
	m.toPeer(i)
}

// toPeer brings a request to a peer that the balancer holds for up.
func (m *meshRun) toPeer(i int) {
	t := &m.trips[i]
	var up []*faultPeer
	for _, p := range m.live() {
		if p.ready && !p.draining && (!p.stalled || m.now-m.silent[p.slot] < healthMs) {
			up = append(up, p)
		}
	}
	if len(up) == 0 {
		m.later(i)
		return
	}
	p := up[m.rng.IntN(len(up))]
	p.requests++
	t.peer, t.clients, t.streaming, t.letIn = p, t.clients+1, false, false
	m.active = append(m.active, i)
	p.do(func() {
		if t.peer == p {
			m.pick(i)
		}
	})
}

// later tries again soon, within bounds.
func (m *meshRun) later(i int) {
	if m.now-m.trips[i].first > giveUpMs {
		m.finished(i, false)
		return
	}
	m.after(againMs, func() { m.arrive(i) })
}

// pick is the request path of a peer: match, decide, book, dispatch.
func (m *meshRun) pick(i int) {
	t := &m.trips[i]
	p := t.peer
	d := m.desk(p)
	if m.mustWait(d, i) {
		return
	}
	dec, ok := m.decide(d, i)
	if !ok {
		p.requests--
		m.drop(i)
		d.sent(t)
		t.tried = nil
		m.later(i)
		return
	}
	m.books.reasons[dec.Reason]++
	t.tries++
	m.decided(d, i, &dec)
	t.cost = d.prompt.Cost(t.engine.stream, &dec)
	d.picker.Book(&t.cost, nil, p.now())
	m.fetch(d, i, &dec)
	if pick.WorthAgain(d.policy, &d.View, &dec, len(d.Cands)) {
		m.lookLater(i, 1)
		return
	}
	m.send(d, i)
}

// decided enters what holds of a decision.
func (m *meshRun) decided(d *desk, i int, dec *policy.Decision) {
	j, t := &m.books.jobs[i], &m.trips[i]
	c := &d.Cands[dec.Pos]
	k := d.fleet[c.Index]
	j.peer, j.replica, j.prefill, j.predicted = d.peer.slot, k, dec.Prefill, dec.Predicted
	t.engine, t.matched, t.confirmed = m.fleet[k], dec.Matched, d.prompt.Blocks(c.Disk)
}

// lookLater looks at a booked decision again before it is sent, as router's
// settle does.
func (m *meshRun) lookLater(i, look int) {
	t := &m.trips[i]
	p, tries := t.peer, t.tries
	t.id = 0 // nothing is at an engine
	m.after(pick.AgainMs, func() {
		p.do(func() {
			if t.peer == p && t.tries == tries && !t.over && t.engine != nil {
				m.lookAgain(m.desk(p), i, look)
			}
		})
	})
}

func (m *meshRun) lookAgain(d *desk, i, look int) {
	t := &m.trips[i]
	if d.peer.loads.News(&t.cost) {
		m.view(d, i)
		at := slices.IndexFunc(d.Cands, func(c policy.Candidate) bool { return m.fleet[d.fleet[c.Index]] == t.engine })
		if at < 0 { // it is gone: sent there, the request would be refused
			m.replicaGone(i)
			return
		}
		if dec, how := d.picker.Again(&d.Scratch, d.policy, at, &t.cost); how == pick.LookMoved {
			m.decided(d, i, &dec)
			d.peer.loads.Move(&t.cost, d.prompt.Cost(t.engine.stream, &dec), nil, d.peer.now())
			m.fetch(d, i, &dec)
			d.peer.step(gossip.LoadChanged{Urgent: true})
			m.moved++
			if look < pick.MaxLooks {
				m.lookLater(i, look+1)
				return
			}
		}
	}
	m.send(d, i)
}

// send hands a booked request to its engine.
func (m *meshRun) send(d *desk, i int) {
	t := &m.trips[i]
	if !t.engine.serves(d.peer) {
		m.replicaGone(i)
		return
	}
	t.sent = m.now
	t.id = uint64(i)<<8 | uint64(t.tries&0xff)
	d.sent(t)
	if t.engine.submit(i); !t.over {
		m.dispatched(d, i)
	}
}

// refused is a peer that hears that its request can never fit.
func (m *meshRun) refused(i int, id uint64) {
	t := &m.trips[i]
	p := t.peer
	p.do(func() {
		if t.peer == p && t.id == id && !t.over {
			m.ended(m.desk(p), i)
			m.drop(i)
			m.finished(i, false)
		}
	})
}

// token brings a token to the peer, and from there to the client.
func (m *meshRun) token(i int, tok replica.Progress) {
	t := &m.trips[i]
	p, id := t.peer, t.id
	p.do(func() {
		if t.peer == p && t.id == id && !t.over {
			m.answer(i, tok)
		}
	})
}

func (m *meshRun) answer(i int, tok replica.Progress) {
	j, t := &m.books.jobs[i], &m.trips[i]
	d := m.desk(t.peer)
	if tok.First {
		j.first, j.cached = m.seconds(), tok.Cached
		m.started(d, i)
		t.streaming = true
	}
	if tok.Done {
		j.done = m.seconds()
		m.ended(d, i)
		m.learned(d, i)
		m.drop(i)
		m.finished(i, true)
	}
}

// replicaGone is a peer that sees its connection to a replica end: before the
// first byte it tries another one.
func (m *meshRun) replicaGone(i int) {
	t := &m.trips[i]
	p := t.peer
	t.id = 0 // whatever is still on its way counts no more
	p.do(func() {
		if t.peer != p || t.over {
			return
		}
		m.ended(m.desk(p), i)
		m.learnFetch(m.desk(p), i, false)
		t.source, t.letIn = nil, true
		if t.streaming {
			m.drop(i)
			m.lost++
			m.finished(i, false)
			return
		}
		t.tried = t.engine
		m.retried++
		p.requests++
		m.pick(i)
	})
}

// sweep is the clients that see their peer gone. What it was answering is
// lost; before the first byte a client tries once more, and then no more.
func (m *meshRun) sweep() bool {
	for _, p := range m.live() {
		switch {
		case !p.stalled:
			delete(m.silent, p.slot)
		case m.silent[p.slot] == 0:
			m.silent[p.slot] = m.now
		}
	}
	for _, i := range append([]int(nil), m.active...) {
		t := &m.trips[i]
		if t.over || t.peer == nil || t.peer.alive {
			continue
		}
		if t.engine != nil && t.id != 0 {
			t.engine.abort(t.id)
		}
		cut := t.streaming
		m.drop(i)
		t.peer, t.engine, t.source, t.id, t.streaming = nil, nil, nil, 0, false
		switch {
		case cut:
			m.lost++
			m.finished(i, false)
		case t.clients < clientTry:
			m.retried++
			m.toPeer(i)
		default:
			m.lost++
			m.finished(i, false)
		}
	}
	return true
}

// drop takes a request off the list of those at a peer.
func (m *meshRun) drop(i int) {
	for at, k := range m.active {
		if k == i {
			m.active = append(m.active[:at], m.active[at+1:]...)
			return
		}
	}
}

// finished ends a request for good and lets those come that waited for it.
func (m *meshRun) finished(i int, answered bool) {
	j, t := &m.books.jobs[i], &m.trips[i]
	if t.over {
		panic("invariant: a request ends once")
	}
	t.over = true
	m.over++
	m.books.flying--
	if !answered {
		m.failed++
		j.first, j.done = 0, 0
	}
	t.prompt, j.keys = prompt{}, nil
	for _, next := range m.books.after[j.req.ID] {
		req := m.books.jobs[next].req
		m.comes(max(req.At/m.books.cfg.Speedup, m.seconds()+req.Think), next)
	}
	for len(m.books.waiting) > 0 && m.books.flying < m.books.cfg.Workload.Concurrency {
		next := m.books.waiting[0]
		m.books.waiting = m.books.waiting[1:]
		m.enter(next)
	}
}
