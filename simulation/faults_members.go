package simulation

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// heardLatelyMs is more than a core listens to a peer that membership calls dead
// and that is silent.
const heardLatelyMs = 3_500

// Times of membership, ms.
const (
	membersMs = 100 // between two looks around
	newsMs    = 400 // the longest until a peer hears of a new one: news spread by gossip
)

// sight is what membership tells one peer of another slot.
type sight struct {
	id              crdt.PeerID
	up              bool
	ready, draining bool
	changing        int64 // since when what is seen differs from what was told; 0: it does not
	newsMs          int64 // how long it takes until a new peer is heard of
	suspectTo       int64 // taken for dead until then, wrongly
	loaded          bool  // registers of it were held at the last look
}

// lookAround plays serf: a peer is alive for another if some path of at most
// one hop in between passes both ways. Failure and return are told late.
func (r *faultRun) lookAround() bool {
	for _, x := range r.peers {
		r.notePartings(x)
		if !x.alive || x.stalled {
			continue
		}
		for _, y := range r.peers {
			if y.slot != x.slot {
				r.look(x, y)
			}
		}
		r.checkRegisters(x)
		r.noRelay(x)
	}
	return true
}

// noRelay checks that a peer which never ingested anything pushes no slots
// (NoEcho): they would be others'.
func (r *faultRun) noRelay(x *faultPeer) {
	if x.ingests {
		return
	}
	r.checked("NoEcho")
	if n := x.core.Stats().Pushed; n > 0 {
		r.violate("NoEcho", x, "pushed %d runs of slots and never ingested one", n)
	}
}

// checkRegisters holds whose load a peer counts: registers are held of this
// peer, of members and of those membership has not told of yet, of nobody else,
// and they stay until a member goes (Cleanup; DrainOrder of peers that drain).
func (r *faultRun) checkRegisters(x *faultPeer) {
	held := map[crdt.PeerID]bool{}
	for _, l := range x.loads.AllLoads(nil) {
		for _, reg := range l.Loads {
			if !r.engineOf(reg.Replica).gone { // with it go its registers
				held[l.Peer] = true
			}
		}
	}
	r.checked("Cleanup")
	for slot, s := range x.sees {
		y := r.peers[slot]
		loaded := s.up && held[s.id]
		if s.up {
			delete(held, s.id)
		}
		if y.id != s.id && (y.alive || y.died == r.now) {
			delete(held, y.id)
		}
		if y.draining {
			r.checked("DrainOrder")
		}
		switch {
		case s.up && s.loaded && !loaded && y.id == s.id && y.draining:
			r.violate("DrainOrder", x, "dropped the registers of %s, which drains and still runs %d requests", y.name, y.requests)
		case s.up && s.loaded && !loaded && y.id == s.id:
			r.violate("Cleanup", x, "dropped the registers of %s, a live member", y.name)
		}
		s.loaded = loaded
	}
	delete(held, x.id)
	for _, p := range x.core.Peers() {
		// One that was never heard to live or to die may have died since: the
		// core ends what is left of the connection. One that is heard lives,
		// whatever membership says.
		if !p.Member && (!x.buried[p.ID] || p.ViewAge < heardLatelyMs) && p.Connected != [gossip.Classes]bool{} {
			delete(held, p.ID)
		}
	}
	for id := range held {
		r.violate("Cleanup", x, "holds registers of %v, which is dead to it", id)
	}
}

func (r *faultRun) look(x, y *faultPeer) {
	s := x.sees[y.slot]
	if s == nil {
		s = &sight{}
		x.sees[y.slot] = s
	}
	suspected := r.now < s.suspectTo
	alive := y.alive && !y.stalled && !suspected && r.reach(x, y)
	switch {
	case s.up && alive && s.id == y.id:
		s.changing = 0
		if s.ready != y.ready || s.draining != y.draining {
			r.tell(x, y, s)
		}
	case s.up && (!alive || s.id != y.id):
		if r.wait(s, r.downMs(y, s, suspected)) {
			s.up, s.changing = false, 0
			r.trace(x.name, "takes %s for dead", y.name)
			x.buried[s.id] = true
			x.step(gossip.MemberDown{Peer: s.id, Left: y.left})
		}
	case !s.up && alive:
		if r.wait(s, r.upMs(y, s)) {
			s.changing = 0
			r.trace(x.name, "sees %s", y.name)
			r.tell(x, y, s)
		}
	default:
		s.changing = 0
	}
}

func (r *faultRun) downMs(y *faultPeer, s *sight, suspected bool) int64 {
	if suspected || y.left && s.id == y.id {
		return 0
	}
	return r.cfg.DetectMs
}

// upMs is the time until a peer is told of another. Of a new one each hears by
// itself: of several that start at once two may meet before they meet the mesh.
func (r *faultRun) upMs(y *faultPeer, s *sight) int64 {
	switch {
	case s.id == y.id:
		return r.cfg.RejoinMs
	case r.cfg.together:
		return 0
	case s.changing == 0:
		s.newsMs = r.news.Int64N(newsMs + 1)
	}
	return s.newsMs
}

// wait reports whether a change has been seen for ms.
func (r *faultRun) wait(s *sight, ms int64) bool {
	if s.changing == 0 {
		s.changing = r.now
	}
	return r.now-s.changing >= ms
}

func (r *faultRun) tell(x, y *faultPeer, s *sight) {
	s.id, s.up, s.ready, s.draining = y.id, true, y.ready, y.draining
	delete(x.buried, y.id)
	x.step(gossip.MemberUp{Peer: y.id, Name: y.name, Ready: y.ready, Draining: y.draining})
}

// reach reports whether probes find a way, direct or by one other peer.
func (r *faultRun) reach(x, y *faultPeer) bool {
	if r.net.both(x.slot, y.slot) {
		return true
	}
	for _, z := range r.peers {
		if z.alive && !z.stalled && !(r.healed && z.draining) && z != x && z != y && r.net.both(x.slot, z.slot) && r.net.both(z.slot, y.slot) {
			return true
		}
	}
	return false
}

func (r *faultRun) byID(id crdt.PeerID) *faultPeer {
	for _, p := range r.peers {
		if p.id == id {
			return p
		}
	}
	return nil
}
