package crdt

import (
	"errors"
	"fmt"
	"slices"
)

// Errors of joining a snapshot.
var (
	ErrJoining  = errors.New("another snapshot is being joined")
	ErrSnapshot = errors.New("snapshot does not add up")
)

// Joining loads a staged snapshot beside the shown store and then joins it at
// once. Meanwhile the stream goes on as before.
type Joining struct {
	s     *Stream
	snap  *Snapshot
	x     *incarnation // nil if there is nothing to load
	piece int
	rows  Rows // of the piece in hand
	roomy bool // there is room for all
	over  bool
	out   Outcome
	rest  *Outcome // not nil: out with what its folding came to
}

// BeginJoin checks a snapshot and starts to join it. If our base is not worse
// its slots are joined at once and nothing is loaded.
func (s *Stream) BeginJoin(snap *Snapshot, nowMs int64) (*Joining, error) {
	s.finish()
	if s.join != nil {
		return nil, ErrJoining
	}
	if err := checkSnapshot(snap, &s.cfg.Limits); err != nil {
		return nil, err
	}
	j := &Joining{s: s, snap: snap}
	c := &snap.Context
	j.x = newIncarnation(c.Epoch, c.Anchor, nil)
	j.x.floor, j.x.voids, j.x.base = c.Floor, slices.Clone(Spans(c.Voids)), snap.Base
	switch {
	case c.Epoch < s.Epoch():
		j.out.Stale = true
	case s.quarantined && c.Epoch <= max(s.Epoch(), s.ignored):
		j.out.Quarantined = true
	case s.cur != nil && c.Epoch == s.cur.epoch && !j.worthLoading():
		j.out = s.Apply(snap.above(), nowMs)
		j.rest = s.rest
	default:
		j.x.blocks = s.cfg.Open(c.Epoch)
		s.join = j
		return j, nil
	}
	j.x, j.over = nil, true
	return j, nil
}

// worthLoading reports whether the snapshot's base would win the join.
func (j *Joining) worthLoading() bool {
	j.x.aboveSet = j.snap.Context.Above
	defer func() { j.x.aboveSet = nil }()
	return j.x.better(j.s.cur)
}

func checkSnapshot(snap *Snapshot, l *Limits) error {
	if err := snap.Context.check(); err != nil {
		return err
	}
	if snap.Context.Epoch == 0 || snap.Context.Epoch > MaxEpoch || len(snap.Context.Voids) > l.VoidSpans {
		return fmt.Errorf("%w: context out of bounds", ErrSnapshot)
	}
	if !slices.Equal(SpansOf(snap.Above), snap.Context.Above) {
		return fmt.Errorf("%w: slots above the floor differ from the context", ErrSnapshot)
	}
	// What is loaded is as much as was told, whoever tells it.
	facts := uint64(0)
	for _, p := range snap.Pieces {
		if len(p) >= rowsHeadBytes {
			facts += uint64(le.Uint32(p[4:]))
		}
	}
	if facts != snap.Base.Count {
		return fmt.Errorf("%w: %d facts and not %d", ErrSnapshot, facts, snap.Base.Count)
	}
	for i := range snap.Above {
		if err := snap.Above[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// above is the part of a snapshot that is a delta.
func (s *Snapshot) above() *Delta {
	return &Delta{Stream: s.Stream, Epoch: s.Context.Epoch, Anchor: s.Context.Anchor, Slots: s.Above, Lost: s.Context.Lost}
}

// Next makes room, loads one piece (at most 64 KiB, under 4,000 facts), or joins
// when all are loaded. After an error the join is over and the stream unchanged.
func (j *Joining) Next(nowMs int64) (done bool, err error) {
	if j.over {
		return true, nil
	}
	if !j.roomy {
		if j.roomy = !j.x.blocks.Expect(j.snap.linked()); !j.roomy {
			return false, nil
		}
	}
	if j.piece == len(j.snap.Pieces) {
		err := j.finish(nowMs)
		return true, err
	}
	_, err = j.rows.decode(j.snap.Pieces[j.piece])
	if err == nil {
		err = j.rows.check(j.x.floor)
	}
	if err != nil {
		j.Abort()
		return true, err
	}
	j.piece++
	j.x.blocks.Load(&j.rows)
	return false, nil
}

// Outcome tells what the join did, once it is over and the stream settled.
func (j *Joining) Outcome() Outcome {
	if j.rest != nil {
		return *j.rest
	}
	return j.out
}

// Abort gives the join up.
func (j *Joining) Abort() {
	if !j.over {
		j.over, j.s.join = true, nil
		j.x.blocks.Drop()
	}
}

// finish swaps the loaded base in, unless the stream has got a better one
// meanwhile, and folds every known slot above it again.
func (j *Joining) finish(nowMs int64) error {
	s, x, c := j.s, j.x, &j.snap.Context
	s.finish()
	if sum := x.blocks.Sum(); sum.Count != j.snap.Base.Count || sum.Facts != j.snap.Base.Facts {
		j.Abort()
		return fmt.Errorf("%w: %d facts and not %d, or other ones", ErrSnapshot, sum.Count, j.snap.Base.Count)
	}
	j.over, s.join = true, nil
	j.fill()
	known := s.cur
	switch {
	case c.Epoch < s.Epoch():
		j.out.Stale = true
		s.drop(x)
		return nil
	case known != nil && known.epoch == c.Epoch:
		s.merge(x)
	case !s.admit(c.Epoch, nowMs):
		j.out.Quarantined = true
		s.drop(x)
		return nil
	default:
		s.replace(x)
		j.out.NewEpoch = true
	}
	s.settle(&j.out, s.cfg.Hold)
	j.rest = s.rest
	return nil
}

// fill completes the loaded incarnation.
func (j *Joining) fill() {
	x, c := j.x, &j.snap.Context
	x.base = x.blocks.Sum()
	x.sums.put(x.floor, x.base)
	if x.floor >= x.anchor {
		x.top, x.topTS = x.floor, c.LastTS
	}
	for _, slot := range j.snap.Above {
		clears, err := slot.inspect()
		if err != nil {
			panic("invariant: a snapshot's slots were validated: " + err.Error())
		}
		if x.offer(slot, clears) == fateNew {
			j.out.NewSlots++
		}
	}
	for _, l := range c.Lost {
		x.lose(l)
	}
}
