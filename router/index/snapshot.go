package index

import (
	"errors"

	"github.com/banyan-llm/banyan/crdt"
)

// Why a whole snapshot changed nothing: the sender should not offer it again.
var (
	errStale       = errors.New("snapshot of an older incarnation")
	errQuarantined = errors.New("stream is quarantined")
)

// cutFacts is how many facts one step of a cut scans, under 1 ms.
const cutFacts = 4096

// Cut cuts a snapshot of a stream in steps; other streams are written to and
// all are read in between. nil if nothing is known or another cut runs. Cost:
// about 25 bytes and 30 ns a fact.
func (x *Index) Cut(id crdt.StreamID) *crdt.Snapshot {
	var cut *crdt.Cut
	var b *blocks
	x.on(id, 0, func(s *crdt.Stream) {
		if s != nil {
			cut = s.BeginCut()
		}
		if cut != nil {
			b = blocksOf(s)
			b.cutting = true
		}
	})
	if cut == nil {
		return nil
	}
	for done := false; !done; {
		x.on(id, 0, func(*crdt.Stream) {
			x.held += cutFacts
			done = cut.Next(cutFacts)
		})
	}
	x.on(id, 0, func(*crdt.Stream) {
		b.cutting = false
		b.relink()
	})
	return cut.Snapshot()
}

// Join joins a complete staged snapshot: its facts are loaded in steps beside
// the shown ones and swapped in at once (I3). After an error nothing changed.
func (x *Index) Join(snap *crdt.Snapshot, nowMs int64) error {
	if err := x.joinable(snap, nowMs); err != nil {
		return err
	}
	x.room()
	var join *crdt.Joining
	var err error
	x.on(snap.Stream, nowMs, func(*crdt.Stream) { join, err = x.streamLocked(snap.Stream).BeginJoin(snap, nowMs) })
	if err != nil {
		return err
	}
	for done := false; !done; {
		x.on(snap.Stream, nowMs, func(*crdt.Stream) { done, err = join.Next(nowMs) })
		if err != nil {
			return err
		}
	}
	out := join.Outcome()
	switch {
	case out.Stale:
		return errStale
	case out.Quarantined:
		return errQuarantined
	}
	x.Ref(snap.Stream).lastSlot.CompareAndSwap(0, nowMs)
	return nil
}
