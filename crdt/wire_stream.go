package crdt

// Bounds of one frame's columns.
const (
	// MaxSlotsPerFrame bounds a list of slots.
	MaxSlotsPerFrame = 1 << 20
	// slotRecordBytes is what a slot costs besides its body.
	slotRecordBytes = 20
)

// AppendSlots appends slots as columns: 4 bytes, 20 a slot, and the bodies.
func AppendSlots(dst []byte, slots []Slot) []byte {
	dst = le.AppendUint32(dst, uint32(len(slots)))
	for i := range slots {
		dst = le.AppendUint64(dst, slots[i].Seq)
	}
	for i := range slots {
		dst = le.AppendUint64(dst, uint64(slots[i].TS))
	}
	for i := range slots {
		dst = le.AppendUint32(dst, uint32(len(slots[i].Body)))
	}
	for i := range slots {
		dst = append(dst, slots[i].Body...)
	}
	return dst
}

// slots decodes at most max slots (0: MaxSlotsPerFrame), ascending, and
// validates each. Bodies are copied one by one, so that keeping one slot does
// not keep its frame.
func (r *reader) slots(max int) []Slot {
	if max <= 0 || max > MaxSlotsPerFrame {
		max = MaxSlotsPerFrame
	}
	n := r.count(slotRecordBytes)
	if n > max {
		r.fail("%d slots", n)
	}
	seqs, times, sizes := r.take(8*n), r.take(8*n), r.take(4*n)
	if r.err != nil || n == 0 {
		return nil
	}
	slots := make([]Slot, n)
	for i := range slots {
		s := &slots[i]
		s.Seq, s.TS = le.Uint64(seqs[8*i:]), int64(le.Uint64(times[8*i:]))
		s.Body = append([]byte{}, r.take(int(le.Uint32(sizes[4*i:])))...)
		if r.err != nil {
			return nil
		}
		if i > 0 && s.Seq <= slots[i-1].Seq {
			r.fail("slots not ascending")
			return nil
		}
		if err := s.Validate(); err != nil {
			r.fail("slot %d: %v", s.Seq, err)
			return nil
		}
	}
	return slots
}

// AppendContext appends a context: 52 bytes and 16 a span.
func AppendContext(dst []byte, c *Context) []byte {
	for _, v := range [...]uint64{c.Epoch, c.Anchor, c.Floor, uint64(c.LastTS)} {
		dst = le.AppendUint64(dst, v)
	}
	return appendSpans(appendSpans(appendSpans(dst, c.Voids), c.Above), c.Lost)
}

// DecodeContext decodes a well-formed context.
func DecodeContext(b []byte) (c Context, rest []byte, err error) {
	r := reader{b: b}
	c = r.context()
	rest, err = r.rest()
	return c, rest, err
}

func (r *reader) context() Context {
	c := Context{Epoch: r.u64(), Anchor: r.u64(), Floor: r.u64(), LastTS: r.i64()}
	c.Voids, c.Above, c.Lost = r.spans(), r.spans(), r.spans()
	if r.err == nil {
		if err := c.check(); err != nil {
			r.fail("%v", err)
		}
	}
	if r.err != nil {
		return Context{}
	}
	return c
}

// check reports what is impossible in a context.
func (c *Context) check() error {
	if !canonical(c.Voids) || !canonical(c.Above) || !canonical(c.Lost) {
		return corrupt("context: spans not ascending and disjoint")
	}
	if c.Floor > MaxSeq || c.Anchor > MaxSeq {
		return corrupt("context: slot number out of range")
	}
	switch {
	case c.Epoch == 0 && (c.Anchor|c.Floor != 0 || len(c.Voids)+len(c.Above)+len(c.Lost) > 0):
		return corrupt("context: slots without an epoch")
	case c.Epoch != 0 && (c.Anchor == 0 || c.Floor < c.Anchor-1):
		return corrupt("context: floor %d below anchor %d", c.Floor, c.Anchor)
	case len(c.Voids) > 0 && (c.Voids[0].From < c.Anchor || c.Voids[len(c.Voids)-1].To > c.Floor):
		return corrupt("context: voids outside anchor and floor")
	case len(c.Above) > 0 && c.Above[0].From <= c.Floor, len(c.Lost) > 0 && c.Lost[0].From <= c.Floor:
		return corrupt("context: slots above the floor below it")
	case Spans(c.Above).meets(c.Lost):
		return corrupt("context: slots both known and lost")
	}
	return nil
}

func appendSum(b []byte, s *Sum) []byte {
	for _, v := range [...]uint64{s.Count, s.Facts, s.Linked, s.KeyXOR} {
		b = le.AppendUint64(b, v)
	}
	return b
}

func (r *reader) sum() Sum { return Sum{r.u64(), r.u64(), r.u64(), r.u64()} }

// AppendDigest appends a digest: 76 bytes and 16 a span.
func AppendDigest(dst []byte, d *Digest) []byte {
	return appendSum(AppendContext(dst, &d.Context), &d.Base)
}

// DecodeDigest decodes a digest.
func DecodeDigest(b []byte) (d Digest, rest []byte, err error) {
	r := reader{b: b}
	d = Digest{Context: r.context(), Base: r.sum()}
	rest, err = r.rest()
	return d, rest, err
}

// AppendDelta appends a delta: 30 bytes and the name, 20 a slot with its body,
// 16 a lost span, 16 a hint.
func AppendDelta(dst []byte, d *Delta) []byte {
	dst = appendString(dst, string(d.Stream))
	dst = le.AppendUint64(le.AppendUint64(dst, d.Epoch), d.Anchor)
	dst = appendSpans(AppendSlots(dst, d.Slots), d.Lost)
	dst = le.AppendUint32(dst, uint32(len(d.Hints)))
	for _, h := range d.Hints {
		dst = le.AppendUint64(le.AppendUint64(dst, h.Handle), h.Key)
	}
	return dst
}

// DecodeDelta decodes a delta of at most MaxSlotsPerFrame slots. As with every
// Decode function of this package: counts are checked against what is left
// before anything is allocated, nothing decoded aliases b, and an error wraps
// ErrCorrupt.
func DecodeDelta(b []byte) (d Delta, rest []byte, err error) {
	r := reader{b: b}
	d = Delta{Stream: r.stream(), Epoch: r.u64(), Anchor: r.u64(), Slots: r.slots(0), Lost: r.spans()}
	if n := r.count(16); n > 0 {
		d.Hints = make([]Hint, n)
		for i := range d.Hints {
			d.Hints[i] = Hint{r.u64(), r.u64()}
		}
	}
	if d.Anchor > MaxSeq {
		r.fail("anchor out of range")
	}
	rest, err = r.rest()
	if err != nil {
		d = Delta{}
	}
	return d, rest, err
}
