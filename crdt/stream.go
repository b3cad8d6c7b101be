package crdt

// Limits of one stream.
const (
	MaxHoles          = 256      // missing ranges above the floor
	MaxVoidSpans      = 64       // ranges below the floor that were declared lost
	DefaultAboveBytes = 64 << 20 // slots held above the first hole
)

// Limits bounds what one stream may hold; zero fields take the defaults.
type Limits struct {
	Holes      int // default MaxHoles
	VoidSpans  int // default MaxVoidSpans
	AboveBytes int // default DefaultAboveBytes
}

func (l *Limits) fill() {
	if l.Holes <= 0 {
		l.Holes = MaxHoles
	}
	if l.VoidSpans <= 0 {
		l.VoidSpans = MaxVoidSpans
	}
	if l.AboveBytes <= 0 {
		l.AboveBytes = DefaultAboveBytes
	}
}

// StreamConfig is what a Stream needs.
type StreamConfig struct {
	ID StreamID
	// Open makes an empty, invisible store for an incarnation. Never nil.
	Open func(epoch uint64) Blocks
	// Ring keeps recent slots for deltas, shared by many streams; nil: one of
	// its own with the default budget.
	Ring   *Ring
	Limits Limits
	// Hold is how many blocks one call folds, about; what is left is for Step.
	// 0: no bound.
	Hold int
}

// Stream is what one peer knows of one engine's log, and through Blocks the
// fold of it. Not safe for concurrent use; streams that share a Ring share a
// caller.
type Stream struct {
	cfg StreamConfig

	cur  *incarnation // nil before the first epoch; of the highest one ever taken (I4)
	cut  *Cut         // being cut: nothing of cur is folded until it ends
	join *Joining     // being loaded
	rest *Outcome     // of the call whose folding is not at its end (I12)

	bumps       []int64 // ms of epoch changes within the last minute
	quarantined bool
	ignored     uint64 // highest epoch that came in quarantine; counted, not taken
}

// NewStream makes a stream that knows nothing.
func NewStream(cfg StreamConfig) *Stream {
	if cfg.Open == nil {
		panic("invariant: a stream opens stores")
	}
	if cfg.Ring == nil {
		cfg.Ring = NewRing(0)
	}
	cfg.Limits.fill()
	if cfg.Hold <= 0 {
		cfg.Hold = wholeSlot
	}
	return &Stream{cfg: cfg}
}

// Apply joins a delta: whole slots and declared losses of one epoch. The
// slots' bodies are kept; d's slices are not. A slot that fails Validate is
// counted and ignored. While a snapshot is cut slots are accepted and folded
// when it ends. Cost: the new slots' folds, plus those of the overlay if
// something new lies below it; see Unsettled for what is over Hold.
func (s *Stream) Apply(d *Delta, nowMs int64) Outcome {
	s.finish()
	var out Outcome
	if !s.enter(d, nowMs, &out) {
		return out
	}
	s.meet(d)
	x := s.cur
	// With nothing to wait for, slots in order need not
	// pass through T.
	plain := s.cut == nil && len(x.lost) == 0 && len(d.Hints) == 0
	left := s.cfg.Hold
	for i := range d.Slots {
		clears, err := d.inspect(i)
		if err != nil {
			out.Invalid++
			continue
		}
		if !clears && plain && len(x.above) == 0 && d.Slots[i].Seq == x.floor+1 && d.Slots[i].small(left) {
			left -= x.follow(s.cfg.Ring, &d.Slots[i])
			out.NewSlots++
			continue
		}
		switch x.offer(d.Slots[i], clears) {
		case fateNew:
			out.NewSlots++
		case fateConflict:
			out.Conflicts++
		}
	}
	if plain && len(x.above) == 0 && len(d.Lost) == 0 {
		out.Floor = x.floor // nothing is left to settle
		return out
	}
	for _, l := range d.Lost {
		x.lose(l)
	}
	if h, ok := x.blocks.(Hinter); ok && len(d.Hints) > 0 {
		h.Hint(d.Hints)
	}
	s.settle(&out, left)
	return out
}

// Hinter is implemented by Blocks that can use hints.
type Hinter interface {
	// Hint tells keys of parents that the store may not know.
	Hint(hints []Hint)
}

// Declare marks slots lost: an ingest owner's word, after nobody had them.
func (s *Stream) Declare(lost []Span, nowMs int64) Outcome {
	s.finish()
	if s.cur == nil {
		return Outcome{}
	}
	return s.Apply(&Delta{Stream: s.cfg.ID, Epoch: s.cur.epoch, Anchor: s.cur.anchor, Lost: lost}, nowMs)
}

// settle normalises the present incarnation, or begins to, and holds its
// limits.
func (s *Stream) settle(out *Outcome, max int) {
	x := s.cur
	if s.cut != nil && s.over(x) {
		s.cut = nil // a snapshot is easier given up than the stream
	}
	if s.cut == nil {
		x.begin()
		if !x.step(s.cfg.Ring, max) {
			rest := *out
			s.rest = &rest
			return
		}
	}
	s.settled(out)
}

// settled holds the limits of what is folded.
func (s *Stream) settled(out *Outcome) {
	x := s.cur
	if s.over(x) {
		// Invariant I7: a peer over its limits never declares losses.
		s.Forget()
		out.Overflow = true
		return
	}
	out.Floor = x.floor
	out.Holes = x.holes()
}

// Unsettled is not nil while the folding that a call began is not at its end:
// then the call's outcome, which is whole once Unsettled is nil again. Nothing
// but Step may be called meanwhile for a bounded cost: whatever asks or changes
// the stream ends the folding first (I12). Readers of the shown store see
// single blocks as before or as after.
func (s *Stream) Unsettled() *Outcome { return s.rest }

// Step goes on with the folding, about max blocks, and reports whether it is at
// its end.
func (s *Stream) Step(max int) (done bool) {
	if s.rest == nil {
		return true
	}
	if !s.cur.step(s.cfg.Ring, max) {
		return false
	}
	out := s.rest
	s.rest = nil
	s.settled(out)
	return true
}

// finish ends the folding.
func (s *Stream) finish() {
	for s.rest != nil {
		s.Step(wholeSlot)
	}
}

// over reports whether an incarnation exceeds the limits.
func (s *Stream) over(x *incarnation) bool {
	l := &s.cfg.Limits
	return len(x.voids) > l.VoidSpans || len(x.lost) > l.Holes || x.aboveBytes > l.AboveBytes ||
		len(x.aboveSet) > l.Holes && len(x.holes()) > l.Holes
}

// drop frees an incarnation.
func (s *Stream) drop(x *incarnation) {
	s.cfg.Ring.release(x)
	x.free()
}

// free drops the store and lets go of it: the ring's queue may still name x.
func (x *incarnation) free() {
	x.blocks.Drop()
	*x = incarnation{epoch: x.epoch}
}

// Forget drops everything but the name of the process: an empty incarnation of
// the epoch is left. So digests tell it, and who missed it does not name a
// process below it, which this peer would refuse for ever.
func (s *Stream) Forget() {
	s.giveUp()
	if x := s.cur; x != nil {
		s.replace(newIncarnation(x.epoch, x.anchor, s.cfg.Open(x.epoch)))
	}
}

// Close drops the stream for good. It must not be used again.
func (s *Stream) Close() {
	s.giveUp()
	if s.cur != nil {
		s.drop(s.cur)
		s.cur = nil
	}
}

// giveUp ends what is under way.
func (s *Stream) giveUp() {
	if s.join != nil {
		s.join.Abort()
	}
	s.cut, s.rest = nil, nil
}

// ID names the stream.
func (s *Stream) ID() StreamID { return s.cfg.ID }

// Epoch is the highest ever taken; 0 while nothing is known.
func (s *Stream) Epoch() uint64 {
	if s.cur == nil {
		return 0
	}
	return s.cur.epoch
}

// Last is the highest known slot and the engine's time of it (microseconds);
// zeros while nothing is known.
func (s *Stream) Last() (seq uint64, ts int64) {
	s.finish()
	if s.cur == nil {
		return 0, 0
	}
	return s.cur.top, s.cur.topTS
}

// Blocks is the store of the present incarnation; nil while nothing is known.
func (s *Stream) Blocks() Blocks {
	if s.cur == nil {
		return nil
	}
	return s.cur.blocks
}

// Reach is the anchor and the floor of the context, without a copy of it; zeros
// while nothing is known. O(1).
func (s *Stream) Reach() (anchor, floor uint64) {
	s.finish()
	if s.cur == nil {
		return 0, 0
	}
	return s.cur.anchor, s.cur.floor
}

// AboveBytes is what the slots above the first hole take.
func (s *Stream) AboveBytes() int {
	if s.cur == nil {
		return 0
	}
	return s.cur.aboveBytes
}

// MaxVoid is the highest slot declared lost below the floor; 0 none. A fact
// stored last below it is suspect: its removal may be what was lost.
func (s *Stream) MaxVoid() uint64 {
	s.finish()
	if s.cur == nil || len(s.cur.voids) == 0 {
		return 0
	}
	return s.cur.voids[len(s.cur.voids)-1].To
}

// Context returns a copy of what is known. O(spans + slots above the floor).
func (s *Stream) Context() Context {
	s.finish()
	if s.cur == nil {
		return Context{}
	}
	return s.cur.context()
}

func (x *incarnation) context() Context {
	return Context{
		Epoch: x.epoch, Anchor: x.anchor, Floor: x.floor, LastTS: x.topTS,
		Voids: x.voids.copy(), Above: x.aboveSet.copy(), Lost: x.lost.copy(),
	}
}

// Digest returns the context and the sum of the base.
func (s *Stream) Digest() Digest {
	s.finish()
	if s.cur == nil {
		return Digest{}
	}
	return Digest{Context: s.cur.context(), Base: s.cur.base}
}

// SumAt returns the sum the base had at a floor, if it was among the last 64
// slots folded.
func (s *Stream) SumAt(epoch, floor uint64) (Sum, bool) {
	s.finish()
	x := s.cur
	switch {
	case x == nil || x.epoch != epoch:
		return Sum{}, false
	case floor == x.floor:
		return x.base, true
	}
	return x.sums.get(floor)
}

// Holes lists at most max missing ranges between the floor and the highest
// known slot.
func (s *Stream) Holes(max int) []Span {
	s.finish()
	if s.cur == nil {
		return nil
	}
	holes := s.cur.holes()
	return holes[:min(len(holes), max)]
}
