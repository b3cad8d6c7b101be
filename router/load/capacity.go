package load

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
)

// Unlimited is the headroom of a replica that no figure bounds.
const Unlimited = 1 << 20

// Limit is the capacity limit of every replica: a replica is full when one of
// three figures says so. A figure of 0 is not looked at.
type Limit struct {
	ReplicaLimit int     // requests in flight there, of all peers together
	EngineQueue  int     // requests that its engine reports waiting
	KVLoad       float64 // tokens in flight there, as a multiple of the KV capacity it reports

	Peers int // live ones, this peer included
	Rank  int // of this peer among them, from 0
	Grid  int // tokens a block
}

// On reports whether replicas can be full.
func (l *Limit) On() bool { return l.ReplicaLimit > 0 || l.EngineQueue > 0 || l.KVLoad > 0 }

// Part is how many of a replica's ReplicaLimit are always this peer's, at least
// one, so that no peer can be starved. The parts of all peers make up the
// limit; the remainder of the division goes to different peers at different
// replicas.
func (l *Limit) Part(id crdt.StreamID) int {
	peers := max(l.Peers, 1)
	part, rest := l.ReplicaLimit/peers, l.ReplicaLimit%peers
	if rest > 0 {
		turn := uint32(0)
		for i := range len(id) {
			turn = turn*31 + uint32(id[i])
		}
		if (l.Rank+int(turn)%peers)%peers < rest {
			part++
		}
	}
	return max(part, 1)
}

// CacheTokens is the KV capacity that a replica told last, tokens; 0 unknown.
func (t *Table) CacheTokens(id crdt.StreamID) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lookLocked(id).scrape.Capacity
}

// WithCapacity keeps the candidates whose replicas are not full, in order, in
// the same memory; entries[i] is that of cands[i].
func (t *Table) WithCapacity(cands []policy.Candidate, entries []*Entry, limit *Limit, nowMs int64) []policy.Candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := cands[:0]
	for i := range cands {
		if t.headroomLocked(entries[i], limit, nowMs) > 0 {
			kept = append(kept, cands[i])
		}
	}
	return kept
}

// Headroom is how many more requests a replica takes from this peer.
func (t *Table) Headroom(id crdt.StreamID, limit *Limit, nowMs int64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.headroomLocked(t.entryLocked(id), limit, nowMs)
}

// headroomLocked is Headroom. Every peer has its part of a limit in requests to
// itself, or a peer whose requests end elsewhere would wait for ever; so for a
// moment there may be nearly twice as many.
func (t *Table) headroomLocked(e *Entry, limit *Limit, nowMs int64) int {
	sum, room := e.total.Load(), Unlimited
	scrape, told := &e.scrape, e.told
	if limit.EngineQueue > 0 && told && Fresh(scrape, t.Wall(nowMs), ScrapeFreshMs) {
		room = min(room, max(0, limit.EngineQueue-int(scrape.Waiting)))
	}
	if limit.KVLoad > 0 && scrape.Capacity > 0 {
		if tokens := sum.Blocks*int64(limit.Grid) + sum.Tokens; float64(tokens) >= limit.KVLoad*float64(scrape.Capacity) {
			return 0
		}
	}
	if limit.ReplicaLimit > 0 {
		own := &e.reg
		room = min(room, max(0, limit.ReplicaLimit-int(sum.Waiting+sum.Streams), limit.Part(e.id)-int(own.Waiting+own.Streams)))
	}
	return room
}
