package index

import (
	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// How much is done while mu is held (I6), under 1 ms.
const (
	holdFacts = 4096     // looked at
	foldFacts = 1024     // folded or linked
	holdBytes = 16 << 10 // of slot bodies, about as many facts
)

// locked runs f as the writer.
func (x *Index) locked(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = 0
	f()
	x.worst = max(x.worst, x.held)
}

// on runs f as the writer of one stream (nil if it is not known). What f made
// necessary (folding the rest of long slots, linking many orphans, counting
// suspects after a loss) is done in further holds, and nothing else happens to
// the stream until then: whoever comes meanwhile helps first.
//
// Each hold of the loop is one of these, in this order:
//
//  1. Something of the stream was put off, by an earlier caller or by f: a piece
//     of it is done. The next hold follows if more is left, or f has not run.
//  2. Nothing is put off and f has run: the stream was given up, or another
//     caller did the rest, between two holds. The end.
//  3. Nothing is put off and f has not run: f runs, once. It may make the stream
//     that was not known. The next hold follows if f put something off.
//
// applyNow is 3 in a hold of its own, for a stream that is known and has nothing
// put off; what that put off is left to on with an empty f.
func (x *Index) on(id crdt.StreamID, nowMs int64, f func(s *crdt.Stream)) {
	for done, more := false, true; more; {
		x.locked(func() {
			x.now = max(x.now, nowMs)
			s := x.streams[id]
			if b := blocksOf(s); b != nil && b.unfinished(s) {
				more = x.step(s, b) || !done
				return
			}
			if done { // and the stream was given up meanwhile
				more = false
				return
			}
			f(s)
			if s == nil {
				s = x.streams[id]
			}
			done, more = true, x.after(s)
		})
	}
}

// settled takes mu when no slot of the stream is folded in part, and returns
// the stream, nil if it is not known.
func (x *Index) settled(id crdt.StreamID) *crdt.Stream {
	x.mu.Lock()
	for {
		s := x.streams[id]
		if s == nil || s.Unsettled() == nil {
			return s
		}
		x.held = 0
		x.step(s, blocksOf(s))
		x.worst = max(x.worst, x.held)
		x.mu.Unlock()
		x.mu.Lock()
	}
}

// unfinished reports whether work on the store's stream was put off.
func (b *blocks) unfinished(s *crdt.Stream) bool {
	return s.Unsettled() != nil || b.counting || len(b.todo)+len(b.smallPages.look) > 0
}

// step does a piece of what was put off and reports whether there is more.
// Links go before folding, lest they pile up, and a count wants the facts to
// lie still.
func (x *Index) step(s *crdt.Stream, b *blocks) (more bool) {
	switch {
	case len(b.todo) > 0:
		b.links()
	case len(b.smallPages.look) > 0:
		b.lookSmall()
	case s.Unsettled() != nil:
		s.Step(x.hold)
	default:
		b.count(holdFacts)
	}
	return x.after(s)
}

// after notices what a hold brought and reports whether there is more to do.
func (x *Index) after(s *crdt.Stream) (more bool) {
	x.holdBounds(s)
	b := blocksOf(s)
	if b == nil {
		return false
	}
	if s.Unsettled() == nil {
		b.notice(s.MaxVoid(), x.now)
	}
	b.tell()
	return b.unfinished(s)
}

// blocksOf is the store of the stream's present incarnation; nil if there is
// none.
func blocksOf(s *crdt.Stream) *blocks {
	if s == nil {
		return nil
	}
	b, _ := s.Blocks().(*blocks)
	return b
}

// Apply joins a delta, local or remote (I1). A long one is joined in parts,
// between which others may write (I6).
func (x *Index) Apply(d *crdt.Delta, nowMs int64) (out crdt.Outcome) {
	d, ok := x.admit(d, nowMs)
	if !ok {
		return crdt.Outcome{Full: true}
	}
	if holdable(d.Slots) == len(d.Slots) {
		return x.applyPart(d, nowMs)
	}
	for slots := d.Slots; ; {
		part := *d
		n := holdable(slots)
		part.Slots, slots = slots[:n], slots[n:]
		if len(slots) > 0 {
			part.Lost, part.Hints = nil, nil // what was declared lost may be in the rest
		}
		got := x.applyPart(&part, nowMs)
		got.NewSlots += out.NewSlots
		got.Conflicts += out.Conflicts
		got.Invalid += out.Invalid
		got.NewEpoch = got.NewEpoch || out.NewEpoch
		out = got
		if len(slots) == 0 || out.Stale || out.Quarantined || out.Overflow {
			return out
		}
	}
}

// holdable is how many slots are joined in one hold: one at least.
func holdable(slots []crdt.Slot) (n int) {
	bytes := 0
	for n < len(slots) && (n == 0 || bytes+len(slots[n].Body) <= holdBytes) {
		bytes += len(slots[n].Body)
		n++
	}
	return n
}

// applyPart joins a part. A long slot, which is one alone, is looked through
// before mu is taken.
func (x *Index) applyPart(d *crdt.Delta, nowMs int64) crdt.Outcome {
	if len(d.Slots) != 1 || len(d.Slots[0].Body) <= holdBytes {
		return x.apply(d, nowMs)
	}
	long := *d
	long.Inspect()
	return x.apply(&long, nowMs)
}

// apply joins a delta in one hold, and in further ones what was put off.
func (x *Index) apply(d *crdt.Delta, nowMs int64) (out crdt.Outcome) {
	x.room()
	out, rest, done, more := x.applyNow(d, nowMs)
	switch {
	case !done:
		x.on(d.Stream, nowMs, func(s *crdt.Stream) {
			if s == nil {
				s = x.streamLocked(d.Stream)
			}
			out = s.Apply(d, nowMs)
			rest = s.Unsettled()
			if out.NewSlots > 0 {
				x.Ref(d.Stream).lastSlot.Store(nowMs)
			}
		})
	case more:
		x.on(d.Stream, nowMs, func(*crdt.Stream) {})
	}
	if rest != nil {
		out = *rest
	}
	if x.isFull(d.Stream, d.Epoch) {
		return crdt.Outcome{Full: true}
	}
	return out
}

// applyNow is the part of apply that nearly always is all of it: the stream is
// known and has nothing to finish before. more reports that it has now; rest is
// the outcome then, if slots are folded in part.
func (x *Index) applyNow(d *crdt.Delta, nowMs int64) (out crdt.Outcome, rest *crdt.Outcome, done, more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.streams[d.Stream]
	b := blocksOf(s)
	if b == nil || b.unfinished(s) {
		return out, nil, false, false
	}
	x.now = max(x.now, nowMs)
	x.held = 0
	x.prefetch(b, d.Slots)
	out = s.Apply(d, nowMs)
	if out.NewSlots > 0 {
		b.ref.lastSlot.Store(nowMs)
	}
	rest = s.Unsettled()
	more = x.after(s)
	x.worst = max(x.worst, x.held)
	return out, rest, true, more
}

// prefetchSlots is how many slots' first blocks are looked for ahead.
const prefetchSlots = 32

// prefetch begins to load what the first blocks of slots will need, so that
// the misses of slots of one block lie beside each other and beside the
// stream's own work.
func (x *Index) prefetch(b *blocks, slots []crdt.Slot) {
	op := &b.op
	for i := range slots[:min(len(slots), prefetchSlots)] {
		if !slots[i].First(op) {
			continue
		}
		x.tree.Prefetch(b.holder, op.Handles.At(0))
		if op.Hashes.Len() == 0 || op.Small > 0 {
			continue
		}
		parent := radix.Key(op.Root)
		if end := b.end(op.Parent); op.HasParent && end.handle == op.Parent {
			parent = end.key
		}
		if parent != 0 {
			x.tree.PrefetchKey(x.hasher.Chain(parent, radix.TokenHash(op.Hashes.At(0))))
		}
	}
}
