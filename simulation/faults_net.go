package simulation

import (
	"math/rand/v2"

	"github.com/banyan-llm/banyan/gossip"
)

// network carries frames between peers as TCP does: in order, whole, late, or
// not at all because the connection ended. Peers are named by their slot: one
// that comes back after a kill has the slot of the one before.
type network struct {
	*agenda
	rng      *rand.Rand
	delayMs  int64
	jitterMs int64
	cuts     map[[2]int]int // direction -> cuts in force
	slow     map[int]float64
	choked   map[[2]int]int // direction -> slow readers in force
	late     func()         // told of a frame that waited long behind others
	torn     func()         // told of one that its connection's end cut off
	conns    gossip.Conn
	pipes    []*pipe
	bytes    uint64
	sent     map[string]gossip.Traffic // by kind of frame
}

// pipe is one connection.
type pipe struct {
	class gossip.Class
	ends  [2]*pipeEnd
	open  bool
}

type pipeEnd struct {
	peer   *faultPeer
	conn   gossip.Conn
	pipe   *pipe
	other  *pipeEnd
	lastAt int64            // latest arrival planned at the other end
	words  gossip.Describer // of what this end sends
	held   []func()         // what waits for a cut to end
	proved int              // the key by which the other end proved itself
}

func newNetwork(a *agenda, cfg *FaultConfig, seed uint64) *network {
	return &network{
		agenda: a, rng: rand.New(rand.NewPCG(seed, 0x4e7)), delayMs: cfg.DelayMs, jitterMs: cfg.JitterMs,
		cuts: map[[2]int]int{}, slow: map[int]float64{}, choked: map[[2]int]int{}, sent: map[string]gossip.Traffic{},
	}
}

// cut adds one cut of a direction, or takes it back.
func (n *network) cut(from, to, by int) {
	k := [2]int{from, to}
	if n.cuts[k] += by; n.cuts[k] <= 0 {
		delete(n.cuts, k)
	}
	if by < 0 {
		n.release()
	}
}

func (n *network) passes(from, to int) bool { return n.cuts[[2]int{from, to}] == 0 }

// both reports whether two slots reach each other directly.
func (n *network) both(i, j int) bool { return n.passes(i, j) && n.passes(j, i) }

// release sends what waited for cuts that are over.
func (n *network) release() {
	for _, p := range n.pipes {
		for _, e := range p.ends {
			from, to := e.peer.slot, e.other.peer.slot
			if len(e.held) == 0 || !n.passes(from, to) || n.choked[[2]int{from, to}] > 0 {
				continue
			}
			held := e.held
			e.held = nil
			for _, f := range held {
				f()
			}
		}
	}
}

// delay draws one way's time, ms.
func (n *network) delay(from, to int) int64 {
	d := float64(n.delayMs)
	if n.jitterMs > 0 {
		d += float64(n.rng.Int64N(n.jitterMs + 1))
	}
	return int64(d * max(n.slow[from], n.slow[to], 1))
}

// dial connects x to y if frames pass both ways.
func (n *network) dial(x, y *faultPeer, class gossip.Class) {
	n.after(2*n.delay(x.slot, y.slot), func() {
		if !x.alive || !y.alive || x.stalled || y.stalled || !n.both(x.slot, y.slot) {
			return
		}
		if trust(x, y) {
			n.connect(x, y, class)
		} else {
			x.run.violate("Refused", x, "has step %d of the keys, and %s step %d", x.ring, y.name, y.ring)
		}
	})
}

func (n *network) connect(x, y *faultPeer, class gossip.Class) {
	p := &pipe{class: class, open: true}
	for i, z := range []*faultPeer{x, y} {
		n.conns++
		p.ends[i] = &pipeEnd{peer: z, conn: n.conns, pipe: p}
		z.pipes[n.conns] = p.ends[i]
	}
	p.ends[0].other, p.ends[1].other = p.ends[1], p.ends[0]
	p.ends[0].proved, p.ends[1].proved = y.ring.proof(), x.ring.proof()
	n.pipes = append(n.pipes, p)
	x.step(gossip.Connected{Conn: p.ends[0].conn, Class: class, Dialed: true, Expect: y.id})
	y.step(gossip.Connected{Conn: p.ends[1].conn, Class: class})
}

// send plans a frame's arrival, and that its sender may write again.
func (n *network) send(x *faultPeer, s gossip.Send) {
	e := x.pipes[s.Conn]
	if e == nil || !e.pipe.open {
		return
	}
	n.bytes += uint64(len(s.Data))
	all := n.sent[s.Kind]
	n.sent[s.Kind] = gossip.Traffic{Frames: all.Frames + 1, Bytes: all.Bytes + uint64(len(s.Data))}
	n.deliver(e, func() {
		e.other.peer.step(gossip.Received{Conn: e.other.conn, Data: s.Data})
		if e.pipe.class == gossip.Bulk {
			n.after(0, func() {
				if e.pipe.open {
					x.step(gossip.Writable{Conn: e.conn})
				}
			})
		}
	})
}

// deliver does something at the other end, after all that was sent before.
func (n *network) deliver(e *pipeEnd, do func()) {
	from, to := e.peer.slot, e.other.peer.slot
	slow := n.choked[[2]int{from, to}] > 0
	if !slow && len(e.held) == 0 && n.passes(from, to) {
		n.plan(e, do)
		return
	}
	since := n.now
	e.held = append(e.held, func() {
		if slow && n.now > since+chokedLateMs {
			n.late()
		}
		n.plan(e, do)
	})
}

// plan lets something happen at the other end one delay from now.
func (n *network) plan(e *pipeEnd, do func()) {
	e.lastAt = max(e.lastAt, n.now+n.delay(e.peer.slot, e.other.peer.slot))
	n.after(e.lastAt-n.now, func() {
		if e.pipe.open {
			do()
		}
	})
}

// sip takes one frame of each connection in a direction that is read slowly.
func (n *network) sip(from, to int) {
	for _, p := range n.pipes {
		for _, e := range p.ends {
			if e.peer.slot == from && e.other.peer.slot == to && len(e.held) > 0 && n.passes(from, to) {
				next := e.held[0]
				e.held = e.held[1:]
				next()
			}
		}
	}
}

// hangup closes a connection from one end; the other hears of it in order, or
// by silence if nothing passes.
func (n *network) hangup(x *faultPeer, id gossip.Conn) {
	e := x.pipes[id]
	if e == nil || !e.pipe.open {
		return
	}
	delete(x.pipes, id)
	if !n.passes(x.slot, e.other.peer.slot) {
		n.end(e.pipe)
		return
	}
	n.deliver(e, func() {
		n.end(e.pipe)
		delete(e.other.peer.pipes, e.other.conn)
		e.other.peer.step(gossip.Disconnected{Conn: e.other.conn})
	})
}

// breakPipes ends the connections that match, at both ends.
func (n *network) breakPipes(match func(x, y *faultPeer) bool) {
	for _, p := range append([]*pipe(nil), n.pipes...) {
		if !p.open || !match(p.ends[0].peer, p.ends[1].peer) && !match(p.ends[1].peer, p.ends[0].peer) {
			continue
		}
		n.end(p)
		for _, e := range p.ends {
			delete(e.peer.pipes, e.conn)
			n.after(0, func() { e.peer.step(gossip.Disconnected{Conn: e.conn}) })
		}
	}
}

// end closes a pipe and forgets it.
func (n *network) end(p *pipe) {
	p.open = false
	for _, e := range p.ends {
		if len(e.held) > 0 && n.choked[[2]int{e.peer.slot, e.other.peer.slot}] > 0 {
			n.torn()
		}
	}
	kept := n.pipes[:0]
	for _, q := range n.pipes {
		if q.open {
			kept = append(kept, q)
		}
	}
	clear(n.pipes[len(kept):])
	n.pipes = kept
}
