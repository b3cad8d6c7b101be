package crdt

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// A peer that is silent but not declared failed keeps its last load, decayed
// by the mean request time: dropping it at once makes everyone herd onto its
// replicas.
const (
	SilentMs = 1_500  // silence after which a peer's load decays
	GoneMs   = 10_000 // silence after which nothing of it counts
)

// Loads is the table of load registers, one per (peer, replica), each written
// by that peer alone; the newest version wins, so any copy may be relayed. It
// keeps one running sum per replica. Not safe for concurrent use.
type Loads struct {
	self  PeerID
	peers map[PeerID]*peerTable
	sums  map[StreamID]*Total
	dirty map[StreamID]struct{}
}

// peerTable is one peer's registers.
type peerTable struct {
	regs  map[StreamID]*register
	heard int64   // ms of its last frame; 0 never told
	share float64 // of its values that counts, 1 unless silent
}

type register struct {
	load Load
	sent Load  // own registers: as last marked dirty
	part parts // what the sum holds of it
}

// parts is a register in whole numbers, so that what was added can be taken
// away exactly (I10).
type parts struct {
	waiting, prefill, tokens, streams, blocks int64 // prefill in ns
	first                                     int64
}

// Total is a replica's running sum over all peers. It lives in the table and
// changes with it.
type Total struct {
	parts
	seconds float64 // prefill
	of      int     // registers
	held    bool    // somebody reads it: it stays when no register is left
}

// Waiting is how many requests have no first token.
func (s *Total) Waiting() int32 { return int32(s.waiting) }

// Prefill is the seconds of prefill that the requests without a first token
// hold.
func (s *Total) Prefill() float64 { return s.seconds }

// Tokens are the uncached tokens of the requests without a first token.
func (s *Total) Tokens() int64 { return s.tokens }

// Streams is how many requests decode.
func (s *Total) Streams() int32 { return int32(s.streams) }

// Blocks are the grid blocks that the decoding requests hold.
func (s *Total) Blocks() int64 { return s.blocks }

// FirstToken is the time of the last first token seen, ms; 0 none.
func (s *Total) FirstToken() int64 { return s.first }

// Load is the whole sum; its Version means nothing. O(1), no look-up.
func (s *Total) Load() Load {
	return Load{
		Waiting: int32(s.waiting), Prefill: s.seconds, Tokens: s.tokens,
		Streams: int32(s.streams), Blocks: s.blocks, FirstToken: s.first,
	}
}

// NewLoads makes an empty table of the peer self.
func NewLoads(self PeerID) *Loads {
	return &Loads{
		self: self, peers: make(map[PeerID]*peerTable),
		sums: make(map[StreamID]*Total), dirty: make(map[StreamID]struct{}),
	}
}

// SetOwn writes an own register; its version must grow. It becomes dirty
// unless only its decode blocks moved, by less than 5 % and less than 16 since
// it was last sent.
func (l *Loads) SetOwn(id StreamID, load Load) {
	r, _ := l.put(l.self, id, load)
	if r == nil {
		return
	}
	now, was := load, r.sent
	now.Version, was.Version, now.Blocks, was.Blocks = 0, 0, 0, 0
	moved := load.Blocks - r.sent.Blocks
	if moved < 0 {
		moved = -moved
	}
	if now != was || moved >= 16 || moved*20 > r.sent.Blocks || r.sent.Version == 0 {
		l.dirty[id] = struct{}{}
		r.sent = load
	}
}

// Join takes registers that peer at wrote, from itself or relayed; older
// versions change nothing, and nobody else writes for this peer. changed
// counts those that did; each, if not nil, is told of them with what they were
// before, unless the peer is heard of for the first time: what it holds then was
// sent at any time. Cost: O(1) a register.
func (l *Loads) Join(at PeerID, loads []LoadEntry, each func(at PeerID, e *LoadEntry, was Load)) (changed int) {
	if at == l.self {
		return 0
	}
	known := l.peers[at] != nil
	for i := range loads {
		e := &loads[i]
		r, was := l.put(at, e.Replica, e.Load)
		if r == nil {
			continue
		}
		changed++
		if known && each != nil {
			each(at, e, was)
		}
	}
	return changed
}

// put returns the register if load was newer, and what it was before.
func (l *Loads) put(at PeerID, id StreamID, load Load) (r *register, was Load) {
	t := l.peers[at]
	if t == nil {
		t = &peerTable{regs: make(map[StreamID]*register), share: 1}
		l.peers[at] = t
	}
	r = t.regs[id]
	if r == nil {
		r = &register{}
		t.regs[id] = r
		l.sumOf(id).of++
	} else if r.load.Version >= load.Version {
		return nil, was
	}
	was, r.load = r.load, load
	l.adjust(id, r, t.share)
	return r, was
}

func (l *Loads) sumOf(id StreamID) *Total {
	s := l.sums[id]
	if s == nil {
		s = &Total{}
		l.sums[id] = s
	}
	return s
}

// adjust replaces what the sum holds of a register.
func (l *Loads) adjust(id StreamID, r *register, share float64) {
	s := l.sums[id]
	now := r.load.parts(share)
	s.add(&r.part, -1)
	s.add(&now, 1)
	s.seconds = float64(s.prefill) / 1e9
	was := r.part.first
	r.part = now
	switch {
	case now.first >= s.first:
		s.first = now.first
	case was == s.first:
		s.first = l.firstToken(id)
	}
}

func (s *parts) add(p *parts, sign int64) {
	s.waiting += sign * p.waiting
	s.prefill += sign * p.prefill
	s.tokens += sign * p.tokens
	s.streams += sign * p.streams
	s.blocks += sign * p.blocks
}

// parts is a register's contribution. share < 1 rounds up, so that a silent
// peer's last request counts until it is gone.
func (l *Load) parts(share float64) parts {
	if share <= 0 {
		return parts{}
	}
	const maxPrefill = 1e6 // seconds; keeps the sum of many peers in 64 bits
	of := func(v int64) int64 { return int64(math.Ceil(float64(v) * share)) }
	if share == 1 {
		of = func(v int64) int64 { return v }
	}
	return parts{
		waiting: of(int64(l.Waiting)), tokens: of(l.Tokens), streams: of(int64(l.Streams)), blocks: of(l.Blocks),
		prefill: int64(min(max(l.Prefill, -maxPrefill), maxPrefill) * share * 1e9), first: l.FirstToken,
	}
}

// firstToken is the latest over all peers. O(peers).
func (l *Loads) firstToken(id StreamID) (first int64) {
	for _, t := range l.peers {
		if r := t.regs[id]; r != nil {
			first = max(first, r.part.first)
		}
	}
	return first
}

// Sum is a replica's load over all peers; its Version means nothing. O(1).
func (l *Loads) Sum(id StreamID) Load {
	s := l.sums[id]
	if s == nil {
		return Load{}
	}
	return s.Load()
}

// Hold returns a replica's sum for reading without looking it up each time. It
// stays that of the replica until Forget, also while no peer tells of it.
func (l *Loads) Hold(id StreamID) *Total {
	s := l.sumOf(id)
	s.held = true
	return s
}

// Heard notes that a frame of the peer itself came: its load counts in full.
func (l *Loads) Heard(at PeerID, nowMs int64) {
	t := l.peers[at]
	if t == nil {
		return
	}
	t.heard = nowMs
	l.weigh(t, 1)
}

// Decay lowers what silent peers count; meanMs is the mean time a request
// takes. Peers never noted by Heard do not decay. O(registers of silent peers).
func (l *Loads) Decay(nowMs int64, meanMs float64) {
	for at, t := range l.peers {
		if silent := nowMs - t.heard; at != l.self && t.heard != 0 && silent >= SilentMs {
			l.weigh(t, silentShare(silent, meanMs))
		}
	}
}

func silentShare(silentMs int64, meanMs float64) float64 {
	if silentMs >= GoneMs || meanMs <= 0 {
		return 0
	}
	return math.Exp(-float64(silentMs-SilentMs) / meanMs)
}

func (l *Loads) weigh(t *peerTable, share float64) {
	if t.share == share {
		return
	}
	t.share = share
	for id, r := range t.regs {
		l.adjust(id, r, share)
	}
}

// Drop forgets a peer that failed or left: its load leaves exactly (I10).
func (l *Loads) Drop(at PeerID) {
	t := l.peers[at]
	if t == nil {
		return
	}
	delete(l.peers, at)
	for id, r := range t.regs {
		l.adjust(id, r, 0)
		s := l.sums[id]
		if s.of--; s.of == 0 && !s.held {
			delete(l.sums, id)
			continue
		}
		s.first = l.firstToken(id)
	}
}

// Replicas appends those that any peer has told of. O(replicas).
func (l *Loads) Replicas(dst []StreamID) []StreamID { return slices.AppendSeq(dst, maps.Keys(l.sums)) }

// Forget drops one replica's registers of all peers. A sum that was held is no
// longer the replica's.
func (l *Loads) Forget(id StreamID) {
	for _, t := range l.peers {
		delete(t.regs, id)
	}
	delete(l.sums, id)
	delete(l.dirty, id)
}

// Own appends this peer's registers, by replica; with dirty only those that
// became dirty since the last call with dirty.
func (l *Loads) Own(dst []LoadEntry, dirty bool) []LoadEntry {
	from := len(dst)
	t := l.peers[l.self]
	if t == nil {
		return dst
	}
	if dirty {
		for id := range l.dirty {
			dst = append(dst, LoadEntry{id, t.regs[id].load})
		}
		clear(l.dirty)
	} else {
		for id, r := range t.regs {
			dst = append(dst, LoadEntry{id, r.load})
		}
	}
	sortLoads(dst[from:])
	return dst
}

// All appends the registers of all peers, by peer and replica.
func (l *Loads) All(dst []PeerLoads) []PeerLoads {
	from := len(dst)
	for at, t := range l.peers {
		p := PeerLoads{Peer: at, Loads: make([]LoadEntry, 0, len(t.regs))}
		for id, r := range t.regs {
			p.Loads = append(p.Loads, LoadEntry{id, r.load})
		}
		sortLoads(p.Loads)
		dst = append(dst, p)
	}
	slices.SortFunc(dst[from:], func(a, b PeerLoads) int { return slices.Compare(a.Peer[:], b.Peer[:]) })
	return dst
}

func sortLoads(e []LoadEntry) {
	slices.SortFunc(e, func(a, b LoadEntry) int { return cmp.Compare(a.Replica, b.Replica) })
}
