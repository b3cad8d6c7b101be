package load

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/banyan-llm/banyan/crdt"
)

// maxRecent bounds the dispatches remembered with what they were sent to: those
// of two ms, by all peers.
const maxRecent = 256

// recent is one dispatch of a peer, as this one heard of it.
type recent struct {
	peer    crdt.PeerID
	replica crdt.StreamID // "": it was taken back
	prefill float64
	tokens  int64
}

// recents are the last dispatches that this peer made or heard of. Guarded by
// the table's mutex.
type recents struct {
	ring  [maxRecent]recent
	count uint64 // so many ever
	back  int    // dispatches that the frame being joined takes back
	sent  int    // and those that it adds
}

func (r *recents) add(d recent) {
	r.ring[r.count%maxRecent] = d
	r.count++
}

// takeBack forgets the last dispatch of a peer to a replica; false: it is not
// remembered.
func (r *recents) takeBack(peer crdt.PeerID, id crdt.StreamID) bool {
	for n := r.count; n > 0 && n+maxRecent > r.count; n-- {
		if d := &r.ring[(n-1)%maxRecent]; d.peer == peer && d.replica == id {
			d.replica = ""
			return true
		}
	}
	return false
}

// since calls each with the dispatches after the first n ones, the oldest first.
func (r *recents) since(n uint64, each func(*recent)) {
	if r.count > maxRecent {
		n = max(n, r.count-maxRecent)
	}
	for ; n < r.count; n++ {
		if d := &r.ring[n%maxRecent]; d.replica != "" {
			each(d)
		}
	}
}

// heardLocked notes what another peer's register says of its dispatches.
func (t *Table) heardLocked(at crdt.PeerID, e *crdt.LoadEntry, was crdt.Load) {
	r, is := &t.recents, &e.Load
	more := int(is.Waiting+is.Streams) - int(was.Waiting+was.Streams)
	if more > 0 {
		r.sent++ // at least: some may have ended
		each := 1 / float64(more)
		for range min(more, maxRecent) {
			r.add(recent{at, e.Replica, (is.Prefill - was.Prefill) * each, int64(float64(is.Tokens-was.Tokens) * each)})
		}
		return
	}
	if is.Waiting < was.Waiting && is.Streams <= was.Streams && r.takeBack(at, e.Replica) { // it went elsewhere before its first token
		r.back++
	}
}

// Sent is a request that was sent to the same replica at the same time.
type Sent struct {
	Prefill float64 // seconds that it is expected to compute
	Tokens  int64   // uncached
	// Before says that it was sent by a peer that comes before this one in the
	// order that all peers know for this replica.
	Before bool
}

// News reports whether other peers sent anything to the request's replica that
// this peer had not heard of when it counted the request in. O(256).
func (t *Table) News(c *Cost) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recents.since(c.known, func(d *recent) { news = news || d.replica == c.Replica && d.peer != t.self })
	return news
}

// SentSince appends what was sent to the request's replica since this peer
// counted it in, by this peer or others. O(256).
func (t *Table) SentSince(dst []Sent, c *Cost) []Sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := turn(t.self, c.Replica)
	t.recents.since(c.known, func(d *recent) {
		if d.replica == c.Replica {
			dst = append(dst, Sent{d.prefill, d.tokens, d.peer != t.self && turn(d.peer, d.replica) < own})
		}
	})
	return dst
}

// turn orders the peers for a replica, alike on all of them and otherwise for
// every replica, so that none always comes last.
func turn(p crdt.PeerID, id crdt.StreamID) uint64 {
	sum := sha256.Sum256(append(p[:], id...))
	return binary.BigEndian.Uint64(sum[:])
}

// Move counts a request that has not been sent yet out at its replica and in at
// another one, of which it takes other costs. False: that one is full, and
// nothing was done.
func (t *Table) Move(c *Cost, to Cost, limit *Limit, nowMs int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.started || c.over {
		return false
	}
	if limit != nil && t.headroomLocked(t.entryLocked(to.Replica), limit, nowMs) <= 0 {
		return false
	}
	t.recents.takeBack(t.self, c.Replica)
	e := t.entryLocked(c.Replica)
	t.leaveQueueLocked(e, c)
	t.publishLocked(e)
	*c = to
	t.addLocked(c, nowMs)
	return true
}
