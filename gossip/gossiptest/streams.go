package gossiptest

import (
	"fmt"
	"math"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

// StateConfig shapes the test state.
type StateConfig struct {
	RingBytes int // of all streams of a peer; default 1 MiB
}

// streams are real crdt.Streams over stores made of maps.
type streams struct {
	ring    *crdt.Ring
	streams map[crdt.StreamID]*crdt.Stream
}

func newStreams(cfg StateConfig) streams {
	if cfg.RingBytes == 0 {
		cfg.RingBytes = 1 << 20
	}
	return streams{ring: crdt.NewRing(cfg.RingBytes), streams: make(map[crdt.StreamID]*crdt.Stream)}
}

func (s *streams) open(id crdt.StreamID) *crdt.Stream {
	st := s.streams[id]
	if st == nil {
		st = crdt.NewStream(crdt.StreamConfig{ID: id, Ring: s.ring, Open: func(epoch uint64) crdt.Blocks { return crdttest.NewMapBlocks(epoch) }})
		s.streams[id] = st
	}
	return st
}

// known is the stream if anything is known of it.
func (s *streams) known(id crdt.StreamID) *crdt.Stream {
	if st := s.streams[id]; st != nil && st.Epoch() != 0 {
		return st
	}
	return nil
}

// Streams implements gossip.State.
func (s *streams) Streams(dst []crdt.StreamID) []crdt.StreamID {
	for _, id := range sortedKeys(s.streams) {
		if s.known(id) != nil {
			dst = append(dst, id)
		}
	}
	return dst
}

// Digest implements gossip.State.
func (s *streams) Digest(id crdt.StreamID) (crdt.Digest, bool) {
	if st := s.known(id); st != nil {
		return linked(st), true
	}
	return crdt.Digest{}, false
}

// SumAt implements gossip.State.
func (s *streams) SumAt(id crdt.StreamID, epoch, f uint64) (crdt.Sum, bool) {
	if st := s.known(id); st != nil {
		return st.SumAt(epoch, f)
	}
	return crdt.Sum{}, false
}

// Apply implements gossip.State.
func (s *streams) Apply(d *crdt.Delta, nowMs int64) crdt.Outcome {
	return s.open(d.Stream).Apply(d, nowMs)
}

// Since implements gossip.State.
func (s *streams) Since(id crdt.StreamID, c *crdt.Context, maxBytes int) (crdt.Delta, bool) {
	return s.open(id).Since(c, maxBytes)
}

// Slots implements gossip.State.
func (s *streams) Slots(id crdt.StreamID, epoch uint64, want []crdt.Span, maxBytes int) []crdt.Slot {
	return s.open(id).Slots(epoch, want, maxBytes)
}

// Forget implements gossip.State.
func (s *streams) Forget(id crdt.StreamID) {
	if st := s.streams[id]; st != nil {
		st.Forget()
	}
}

// Remove forgets a stream that left, its name too.
func (s *streams) Remove(id crdt.StreamID) {
	if st := s.streams[id]; st != nil {
		st.Close()
		delete(s.streams, id)
	}
}

// Cut cuts a snapshot; nil if nothing is known.
func (s *streams) Cut(id crdt.StreamID) *crdt.Snapshot {
	st := s.known(id)
	if st == nil {
		return nil
	}
	cut := st.BeginCut()
	for cut != nil && !cut.Next(100) {
	}
	if cut == nil {
		return nil
	}
	return cut.Snapshot()
}

// Join joins a staged snapshot.
func (s *streams) Join(snap *crdt.Snapshot, nowMs int64) error {
	j, err := s.open(snap.Stream).BeginJoin(snap, nowMs)
	for done := false; err == nil && !done; {
		done, err = j.Next(nowMs)
	}
	if err == nil && (j.Outcome().Stale || j.Outcome().Quarantined) {
		err = fmt.Errorf("join %s: %+v", snap.Stream, j.Outcome())
	}
	return err
}

// Tick lets the streams' quarantines end.
func (s *streams) Tick(nowMs int64) {
	for _, st := range s.streams {
		st.Tick(nowMs)
	}
}

// Facts are the visible facts of a stream.
func (s *streams) Facts(id crdt.StreamID) map[crdttest.Entry]crdt.Meta {
	if st := s.known(id); st != nil {
		return st.Blocks().(*crdttest.MapBlocks).Metas()
	}
	return nil
}

// Corrupt removes a copy of one visible fact behind the stream's back, as a
// fault in memory would. The sum of the base shows it at the next slot.
func (s *streams) Corrupt(id crdt.StreamID) {
	b := s.known(id).Blocks().(*crdttest.MapBlocks)
	least := crdttest.Entry{Handle: math.MaxUint64}
	for e := range b.Facts {
		if e.Handle < least.Handle {
			least = e
		}
	}
	var body crdt.Builder
	for tier := range crdt.Tiers {
		body.Remove(crdt.Op{Tier: crdt.Tier(tier), Main: true}, []uint64{least.Handle})
	}
	slot, err := body.Slot(1, 0)
	if err != nil {
		panic("invariant: " + err.Error())
	}
	b.Fold(&slot, 0, false, math.MaxInt)
}
