package simulation

import "github.com/banyan-llm/banyan/gossip"

// ring is the keys that a peer holds, by the step of a rotation that it has
// taken: key k alone, then k and k+1, then k+1 and k, then k+1 alone. The first
// one proves it.
type ring int

const ringSteps = 3 // of a rotation

// proof is the key that its holder proves itself by.
func (g ring) proof() int { return (int(g) + 1) / ringSteps }

// holds reports whether a key is in the ring.
func (g ring) holds(key int) bool {
	first := int(g) / ringSteps
	return key == first || key == first+1 && int(g)%ringSteps != 0
}

// trust reports whether two peers take each other for peers.
func trust(x, y *faultPeer) bool {
	return x.ring.holds(y.ring.proof()) && y.ring.holds(x.ring.proof())
}

// Times of a rotation, ms.
const (
	keysReadMs  = 1_000 // the longest until a peer reads a new ring
	keysEndMs   = 2_000 // the longest until connections proved by a key that left end
	keysAskedMs = 100
)

// rotate gives all peers a new key, one step after the other: the next one as
// soon as every peer that lives has taken the one before. Who starts meanwhile
// reads the newest.
func (r *faultRun) rotate() {
	if r.rotating {
		return
	}
	r.rotating = true
	step := func() {
		r.ring++
		for _, p := range r.live() {
			r.after(r.news.Int64N(keysReadMs), func() { p.do(p.readKeys) })
		}
	}
	step()
	r.every(keysAskedMs, func() bool {
		for _, p := range r.live() {
			if p.ring != r.ring {
				return true
			}
		}
		if r.rotating = int(r.ring)%ringSteps != 0; r.rotating {
			step()
		}
		return r.rotating
	})
}

// readKeys takes the newest ring and ends the connections whose other end proved
// itself by a key that is not in it.
func (p *faultPeer) readKeys() {
	if p.ring == p.run.ring {
		return
	}
	p.ring = p.run.ring
	p.run.trace(p.name, "takes step %d of its keys", p.ring)
	for _, q := range p.run.net.pipes {
		for _, e := range q.ends {
			if e.peer == p && !p.ring.holds(e.proved) {
				p.run.after(p.run.news.Int64N(keysEndMs), func() { p.expel(e) })
			}
		}
	}
}

// expel ends a connection proved by a key that left.
func (p *faultPeer) expel(e *pipeEnd) {
	if !e.pipe.open {
		return
	}
	if !p.run.net.both(p.slot, e.other.peer.slot) {
		p.run.reached("keys rotated in a cut")
	}
	p.run.net.hangup(p, e.conn)
	p.step(gossip.Disconnected{Conn: e.conn})
}
