package crdt

// Cut cuts a snapshot of a stream in steps. While it runs no slot of the
// stream is folded: slots are accepted and folded when it ends.
type Cut struct {
	s      *Stream
	x      *incarnation
	cursor uint64
	rows   Rows
	pieces [][]byte
	snap   *Snapshot
}

// BeginCut starts a cut; nil if nothing is known or another cut runs. The
// caller takes it to its end or aborts it: until then nothing is folded.
func (s *Stream) BeginCut() *Cut {
	s.finish()
	if s.cur == nil || s.cut != nil {
		return nil
	}
	s.cut = &Cut{s: s, x: s.cur}
	return s.cut
}

// Next scans about maxFacts facts and reports whether the cut is over. It is
// over early if the incarnation was replaced or forgotten meanwhile, or if
// more slots came than may wait.
func (c *Cut) Next(maxFacts int) (done bool) {
	if c.s.cut != c {
		return true
	}
	c.rows.Reset()
	c.cursor = c.x.blocks.Scan(&c.rows, c.cursor, maxFacts)
	c.pieces = AppendPieces(c.pieces, &c.rows)
	if c.cursor != 0 {
		return false
	}
	c.snap = &Snapshot{Stream: c.s.cfg.ID, Context: c.x.context(), Base: c.x.base, Pieces: c.pieces}
	for i := range c.x.above {
		c.snap.Above = append(c.snap.Above, c.x.above[i].Slot)
	}
	c.Abort()
	return true
}

// Snapshot is the result of a cut that is over; nil if it was cut short. Its
// slots share their bodies with the stream; the pieces are its own.
func (c *Cut) Snapshot() *Snapshot { return c.snap }

// Abort ends the cut and folds what waited for it.
func (c *Cut) Abort() {
	if c.s.cut != c {
		return
	}
	c.s.cut = nil
	c.s.settle(&Outcome{}, c.s.cfg.Hold)
}
