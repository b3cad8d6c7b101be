package simulation

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// elders are the peers that were over their own join when another one started,
// and what they all knew then.
type elders struct {
	peers  map[*faultPeer]bool   // true until one and the newcomer are kept apart
	called map[crdt.StreamID]int // the process that each of them had a name for
}

// meetElders notes whom a newcomer can learn from.
func (r *faultRun) meetElders(p *faultPeer) {
	p.elders = elders{map[*faultPeer]bool{}, map[crdt.StreamID]int{}}
	for _, q := range r.live() {
		if q != p && q.joined {
			p.elders.peers[q] = true
		}
	}
	for _, e := range r.engines {
		life := 0
		for q := range p.elders.peers {
			prior, _ := q.index.Prior(e.stream)
			named := e.lifeNamed(prior.Epoch)
			if life == 0 {
				life = named
			}
			if named == 0 || named != life {
				life = -1 // not all of them knew
			}
		}
		if life > 0 {
			p.elders.called[e.stream] = life
		}
	}
}

// lifeNamed is the process that an epoch is the name of; 0 if there is none or
// more than one.
func (e *faultEngine) lifeNamed(epoch uint64) int {
	if a := e.said[epoch]; a != nil {
		return a.life
	}
	return 0
}

// notePartings remembers which elders a peer is kept from: what they know it
// may never hear. A peer that is done joining before it hears of one asked only
// those it had heard of.
func (r *faultRun) notePartings(x *faultPeer) {
	for y, together := range x.elders.peers {
		s := x.sees[y.slot]
		early := x.joined && (s == nil || !s.up)
		if together && (early || !y.alive || y.stalled || x.stalled || !r.net.both(x.slot, y.slot) || s != nil && r.now < s.suspectTo) {
			x.elders.peers[y] = false
		}
	}
}

// oneName checks that a running process keeps its name: an owner that begins to
// follow one takes over what the mesh calls it, unless nobody is left to tell,
// the engine does not tell when it started, or the stream is in quarantine.
func (r *faultRun) oneName(f *follower, before uint64, prior *follow.Prior, out *follow.Output) {
	e, epoch := f.engine, f.track.Epoch()
	if epoch == before || epoch == 0 {
		return
	}
	life := e.lifeNamed(epoch)
	if out.Opened {
		life = e.life
	}
	if life <= 0 || !e.tells || f.track.Stats().Quarantine > 0 || f.peer.index.Quarantined(e.stream) {
		return
	}
	if e.lifeNamed(prior.Epoch) != life && !f.peer.wasTold(e, life) {
		return
	}
	r.checked("OneName")
	if out.Opened && e.lifeNamed(epoch) != life {
		r.violate("OneName", f.peer, "process %d of %s is named again, as %d: the mesh had a name for it, and nobody was kept from telling", life, e.name, epoch)
	}
}

// wasTold reports whether the mesh had a name for a process when this peer
// started, and somebody who knew it could tell ever since.
func (p *faultPeer) wasTold(e *faultEngine, life int) bool {
	p.run.notePartings(p)
	if p.elders.called[e.stream] != life {
		return false
	}
	for _, together := range p.elders.peers {
		if together {
			return true
		}
	}
	return false
}
