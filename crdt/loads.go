package crdt

import "slices"

// Loads is the table of load registers: one per (peer, replica), written by
// that peer alone, newest version wins. It keeps one running sum per replica.
type Loads struct {
	self  PeerID
	peers map[PeerID]map[StreamID]Load
	sums  map[StreamID]Load
	dirty map[StreamID]struct{}
}

// NewLoads makes an empty table of the peer self.
func NewLoads(self PeerID) *Loads {
	return &Loads{
		self: self, peers: map[PeerID]map[StreamID]Load{}, sums: map[StreamID]Load{}, dirty: map[StreamID]struct{}{},
	}
}

// SetOwn writes an own register and marks it dirty. Its version must grow.
func (l *Loads) SetOwn(id StreamID, load Load) {
	if l.put(l.self, id, load) {
		l.dirty[id] = struct{}{}
	}
}

// Join takes another peer's registers; older versions change nothing, and
// nobody writes for this peer.
func (l *Loads) Join(at PeerID, loads []LoadEntry) {
	if at == l.self {
		return
	}
	for _, e := range loads {
		l.put(at, e.Replica, e.Load)
	}
}

func (l *Loads) put(at PeerID, id StreamID, load Load) bool {
	table := l.peers[at]
	if table == nil {
		table = map[StreamID]Load{}
		l.peers[at] = table
	}
	old, ok := table[id]
	if ok && old.Version >= load.Version {
		return false
	}
	table[id] = load
	l.resum(id)
	return true
}

// resum adds a replica's registers up anew: O(peers), exact, without the drift
// that adding and subtracting floats has.
func (l *Loads) resum(id StreamID) {
	var sum Load
	for _, table := range l.peers {
		r, ok := table[id]
		if !ok {
			continue
		}
		sum.Waiting += r.Waiting
		sum.Prefill += r.Prefill
		sum.Tokens += r.Tokens
		sum.Streams += r.Streams
		sum.Blocks += r.Blocks
		sum.FirstToken = max(sum.FirstToken, r.FirstToken)
	}
	if sum == (Load{}) {
		delete(l.sums, id)
		return
	}
	l.sums[id] = sum
}

// Sum is a replica's load over all peers; Version is meaningless in it. O(1).
func (l *Loads) Sum(id StreamID) Load { return l.sums[id] }

// Drop forgets a peer that failed or left: its load leaves exactly.
func (l *Loads) Drop(at PeerID) {
	table := l.peers[at]
	delete(l.peers, at)
	for id := range table {
		l.resum(id)
	}
}

// Own appends this peer's registers, sorted by replica; with dirty only those
// written since the last call with dirty.
func (l *Loads) Own(dst []LoadEntry, dirty bool) []LoadEntry {
	from := len(dst)
	for id, load := range l.peers[l.self] {
		if _, is := l.dirty[id]; is || !dirty {
			dst = append(dst, LoadEntry{id, load})
		}
	}
	if dirty {
		clear(l.dirty)
	}
	sortEntries(dst[from:])
	return dst
}

// All appends every peer's registers, sorted by peer and replica.
func (l *Loads) All(dst []PeerLoads) []PeerLoads {
	from := len(dst)
	for peer, table := range l.peers {
		p := PeerLoads{Peer: peer}
		for id, load := range table {
			p.Loads = append(p.Loads, LoadEntry{id, load})
		}
		sortEntries(p.Loads)
		dst = append(dst, p)
	}
	slices.SortFunc(dst[from:], func(a, b PeerLoads) int {
		if a.Peer.Less(b.Peer) {
			return -1
		}
		return 1
	})
	return dst
}

func sortEntries(e []LoadEntry) {
	slices.SortFunc(e, func(a, b LoadEntry) int {
		if a.Replica < b.Replica {
			return -1
		}
		return 1
	})
}
