package index

import "github.com/banyan-llm/banyan/crdt"

// Revive brings an outranked incarnation back for an owner that knows it to be
// the engine's present one. With anew it was outranked by a false detection and
// gets the present epoch + 1 ms, with the slots that came since; else the
// present epoch is another owner's name for it, and both are joined.
//
// The delta is what the other peers must be told at once: a slot that is kept
// of it proves to them that their own shadow is the same. Without one, digests
// and a snapshot tell. ok is false if the shadow is gone. The kept slots of the
// two are moved in one hold and folded in steps; at most two a minute.
func (x *Index) Revive(id crdt.StreamID, epoch uint64, anew bool, nowMs int64) (d crdt.Delta, ok bool) {
	x.on(id, nowMs, func(s *crdt.Stream) {
		if s == nil {
			return
		}
		witness, kept := s.Witness(epoch)
		if anew {
			_, ok = s.Republish(epoch, nowMs)
		} else {
			_, ok = s.Reunite(epoch)
		}
		if c := s.Context(); ok {
			d = crdt.Delta{Stream: id, Epoch: c.Epoch, Anchor: c.Anchor}
		}
		if ok && kept {
			d.Slots = []crdt.Slot{witness}
		}
	})
	return d, ok
}
