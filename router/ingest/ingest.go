package ingest

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/index"
)

// staleOwnerMs is the silence after which a peer is not counted on as an owner:
// a false suspicion only adds an owner.
const staleOwnerMs = 1500

// How long a peer that is no owner any more goes on listening: letGoMs, in which
// the new owners connect, and until it heard one batch more, at most letGoMostMs.
// By that batch the new owners know the process of an engine that tells no start
// time: it came to them too, and the mesh has it under the process's name.
const (
	letGoMs     = 3_000
	letGoMostMs = 60_000
)

// Self is this peer as an owner.
type Self struct {
	ID       crdt.PeerID
	Joined   bool // it was caught up with the mesh once, or found none
	Draining bool
}

// Counts reports whether another peer, a live member, may be an owner.
func Counts(ready, draining bool, viewAgeMs int64) bool {
	return ready && !draining && viewAgeMs < staleOwnerMs
}

// Owners are the first n owners of a stream, 0 all, among the others that count
// and this peer if it may (N1).
func Owners(stream crdt.StreamID, others []crdt.PeerID, self Self, n int) []crdt.PeerID {
	return gossip.Owners(stream, Eligible(others, self), n)
}

// Eligible are the peers that may own streams: the others that count, and this
// one if it may (N2). Before it joined the mesh, or found none, it owns nothing:
// what it would name an incarnation after is the start of the engine's replay
// buffer, later than the mesh's name, which that would outrank. From then on it
// owns its share, also while it is behind: peers fall behind together, when they
// are short of CPU, and a stream must not be left by all of them.
func Eligible(others []crdt.PeerID, self Self) []crdt.PeerID {
	if self.Draining || !self.Joined {
		return others
	}
	return append(others, self.ID)
}

// Hold is a stream that this peer follows, as its owner or lately so.
type Hold struct {
	First  bool // this peer is the first owner
	lost   bool // it is no owner any more
	lostMs int64
	last   uint64 // highest batch heard before the new owners were connected
	handed bool   // they are by now, and heard one batch that this peer heard too
}

// Look takes this peer's place among the owners, -1 for none, and the highest
// batch that it heard.
func (h *Hold) Look(rank int, heard uint64, nowMs int64) {
	h.First = rank == 0
	switch {
	case rank >= 0:
		h.lost = false
	case !h.lost:
		h.lost, h.lostMs, h.last, h.handed = true, nowMs, heard, false
	case nowMs-h.lostMs <= letGoMs:
		h.last = heard
	default:
		h.handed = heard > h.last || nowMs-h.lostMs > letGoMostMs
	}
}

// Owner reports whether this peer owns the stream.
func (h *Hold) Owner() bool { return !h.lost }

// Over reports whether to let go (N3). alone says that reading empties the
// engine's queue: two readers would each miss the other's part.
func (h *Hold) Over(alone bool) bool { return h.lost && (alone || h.handed) }

// Relay reports whether the mesh is told of a delivery with this outcome (N4).
func Relay(out *crdt.Outcome) bool {
	return !out.Stale && !out.Overflow && (out.NewSlots > 0 || out.NewEpoch)
}

// Declare gives batches up that are due and still missing (N5), and returns
// what to tell the mesh.
func Declare(losses []gossip.Loss, x *index.Index, nowMs int64) (out []gossip.Ingested) {
	for _, l := range losses {
		spans := crdt.Overlap(l.Spans, x.Holes(l.Stream))
		if len(spans) == 0 {
			continue
		}
		if d, res := x.Declare(l.Stream, l.Epoch, spans, nowMs); len(d.Lost) > 0 && !res.Stale {
			out = append(out, gossip.Ingested{Stream: l.Stream, Epoch: l.Epoch, Lost: spans, ReceivedAt: nowMs, First: true})
		}
	}
	return out
}
