package index

import (
	"errors"
	"maps"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// A stream that does not fit is forgotten whole and left alone for a while: its
// replica runs on predictions. It is tried again after fullMs, at once when the
// engine clears its cache or restarts.
const fullMs = 10 * 60 * 1000

// Bound names what a stream was given up for.
type Bound string

// The bounds.
const (
	BoundFacts  Bound = "facts"  // more than its engine can hold
	BoundMemory Bound = "memory" // it grew most when the trees' memory was used up
)

// Full is a stream that did not fit.
type Full struct {
	Epoch   uint64
	Facts   uint64 // that it had
	Bound   Bound
	untilMs int64
}

const (
	// fewFacts are never too many: nobody is asked how many a stream may have.
	fewFacts = 1 << 16
	// maxAbove bounds the slots above holes of all streams together, unless Config
	// says it; each has a bound of its own.
	maxAbove = 256 << 20
	// looseBytes is about what a fact takes whose key is not known, smallBytes a
	// page shorter than a grid block: both lie beside the trees.
	looseBytes = 320
	smallBytes = 81
	// grewMs is how often streams are measured, to see which grew.
	grewMs = 60_000
)

var errFull = errors.New("the stream does not fit")

// bounds is what the index may hold. Guarded by the Index's mutex.
type bounds struct {
	facts     func(crdt.StreamID) int // that a stream may have; nil: any number
	memory    int64                   // of both trees, bytes; 0 any
	above     int                     // bytes of slots above holes, all streams
	mostAbove int
	beside    int64 // bytes of facts that are in no tree, all streams
	full      map[crdt.StreamID]Full
	givenUp   map[Bound]uint64 // streams, since the start
	grewAt    int64
}

// used is what the trees take, bytes.
func (x *Index) used() int64 {
	return x.tree.Used() + x.guesses.Used() + x.bound.beside
}

// holdBounds keeps the bounds after something was done to stream s, nil if it is
// not known.
func (x *Index) holdBounds(s *crdt.Stream) {
	b := blocksOf(s)
	if b != nil {
		b.account(s.AboveBytes(), int64(len(b.list))*looseBytes+int64(b.used)*smallBytes+int64(b.records)*aheadBytes)
	}
	if x.bound.above > x.bound.mostAbove {
		x.dropAbove()
	}
	if n := b.count64(); n > fewFacts && x.bound.facts != nil && over(n, x.bound.facts(s.ID())) {
		x.giveUp(s, BoundFacts)
	}
	if x.bound.memory > 0 && x.used() > x.bound.memory {
		x.relieve()
	}
}

// count64 is how many facts are visible; 0 of no store.
func (b *blocks) count64() uint64 {
	if b == nil {
		return 0
	}
	return b.sum.Count
}

// account tells the index what the stream takes outside of the trees.
func (b *blocks) account(above int, beside int64) {
	b.x.bound.above += above - b.heldAbove
	b.x.bound.beside += beside - b.heldBeside
	b.heldAbove, b.heldBeside = above, beside
}

// giveUp forgets a stream that does not fit.
func (x *Index) giveUp(s *crdt.Stream, why Bound) {
	x.leave(s.ID(), Full{Epoch: s.Epoch(), Facts: blocksOf(s).count64(), Bound: why})
	s.Forget()
}

// leave leaves a stream alone.
func (x *Index) leave(id crdt.StreamID, f Full) {
	f.untilMs = x.now + fullMs
	x.bound.full[id] = f
	x.bound.givenUp[f.Bound]++
	x.Ref(id).lastSlot.Store(0) // predictions last again
	x.someFull.Store(true)
}

// relieve makes room in the trees, one thing a call: what was dropped before
// goes first, then predictions, then the stream that grew most.
func (x *Index) relieve() {
	switch {
	case len(x.dropping) > 0:
		x.clearSome(holdFacts)
	case x.guess.dropLargest():
	default:
		var worst *crdt.Stream
		most := int64(-1)
		for _, id := range slices.Sorted(maps.Keys(x.streams)) {
			s := x.streams[id]
			if b := blocksOf(s); b.count64() > 0 && int64(b.sum.Count)-int64(b.was) > most {
				worst, most = s, int64(b.sum.Count)-int64(b.was)
			}
		}
		if worst != nil {
			x.giveUp(worst, BoundMemory)
		}
	}
}

// dropAbove forgets the stream that holds most slots above holes: they come
// again with a snapshot or a replay.
func (x *Index) dropAbove() {
	var worst *crdt.Stream
	most := 0
	for _, id := range slices.Sorted(maps.Keys(x.streams)) {
		if b := blocksOf(x.streams[id]); b != nil && b.heldAbove > most {
			worst, most = x.streams[id], b.heldAbove
		}
	}
	if worst != nil {
		worst.Forget()
	}
}

// measure notes how large the streams are, to see which grow.
func (x *Index) measure(nowMs int64) {
	if nowMs-x.bound.grewAt < grewMs {
		return
	}
	x.bound.grewAt = nowMs
	for _, s := range x.streams {
		if b := blocksOf(s); b != nil {
			b.was = b.sum.Count
		}
	}
}

// admit decides what of a delta is taken of a stream that did not fit: nothing
// before its time is over, but a clear and what follows it.
func (x *Index) admit(d *crdt.Delta, nowMs int64) (*crdt.Delta, bool) {
	if !x.someFull.Load() {
		return d, true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	f, ok := x.bound.full[d.Stream]
	if !ok || d.Epoch < f.Epoch {
		return d, true
	}
	if d.Epoch == f.Epoch && nowMs < f.untilMs {
		at := len(d.Slots) - 1
		for at >= 0 && !d.Slots[at].Clears() {
			at--
		}
		if at < 0 {
			return nil, false
		}
		d = &crdt.Delta{Stream: d.Stream, Epoch: d.Epoch, Anchor: d.Anchor, Slots: d.Slots[at:]}
	}
	x.fitsAgain(d.Stream)
	return d, true
}

// fitsAgain lets a stream be tried again.
func (x *Index) fitsAgain(id crdt.StreamID) {
	delete(x.bound.full, id)
	x.someFull.Store(len(x.bound.full) > 0)
}

// Fits reports whether a stream may be taken from a peer that holds what the
// digest says.
func (x *Index) Fits(id crdt.StreamID, theirs *crdt.Digest, nowMs int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f, ok := x.bound.full[id]; ok && theirs.Context.Epoch <= f.Epoch && nowMs < f.untilMs {
		return false
	}
	return x.bound.facts == nil || theirs.Base.Count <= fewFacts || !over(theirs.Base.Count, x.bound.facts(id))
}

// isFull reports whether a stream was given up in that epoch.
func (x *Index) isFull(id crdt.StreamID, epoch uint64) bool {
	if !x.someFull.Load() {
		return false
	}
	f, ok := x.Full(id)
	return ok && f.Epoch == epoch
}

func over(n uint64, most int) bool { return most > 0 && n > uint64(most) }

// joinable refuses a snapshot that does not fit before any of it is loaded.
func (x *Index) joinable(snap *crdt.Snapshot, nowMs int64) error {
	d := crdt.Digest{Context: snap.Context, Base: snap.Base}
	if !x.Fits(snap.Stream, &d, nowMs) {
		return errFull
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bound.memory > 0 && x.used()+int64(snap.Base.Count)*factBytes > x.bound.memory {
		x.leave(snap.Stream, Full{Epoch: snap.Context.Epoch, Facts: snap.Base.Count, Bound: BoundMemory})
		return errFull
	}
	x.fitsAgain(snap.Stream)
	return nil
}

// factBytes is about what a fact takes in the tree.
const factBytes = 60

// Full tells whether a stream was given up, and why.
func (x *Index) Full(id crdt.StreamID) (Full, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, ok := x.bound.full[id]
	return f, ok
}
