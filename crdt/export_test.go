package crdt

// Parts of frames by themselves, for tests of their bytes.

// AppendSpans appends a set of slot numbers: 4 bytes and 16 a span.
func AppendSpans(dst []byte, s []Span) []byte { return appendSpans(dst, s) }

// DecodeSpans decodes a set of slot numbers and returns the bytes behind it.
func DecodeSpans(b []byte) (s []Span, rest []byte, err error) {
	r := reader{b: b}
	s = r.spans()
	rest, err = r.rest()
	return s, rest, err
}

// DecodeSlots decodes a list of slots by itself.
func DecodeSlots(b []byte, max int) (slots []Slot, rest []byte, err error) {
	r := reader{b: b}
	slots = r.slots(max)
	rest, err = r.rest()
	return slots, rest, err
}

// DecodeRows decodes a batch of facts by itself.
func DecodeRows(b []byte) (rows Rows, rest []byte, err error) {
	if rest, err = rows.decode(b); err != nil {
		rows = Rows{}
	}
	return rows, rest, err
}

// Visible reports whether a key is predicted at a space now. O(1).
func (p *Predictions) Visible(id PredictionSpace, key uint64, nowMs int64) bool {
	s := p.spaces[id]
	if s == nil {
		return false
	}
	g := s.of[key]
	return g != nil && !g.touch.absent && nowMs < g.touch.over()
}

// Len counts the touches kept, absents and expired ones included.
func (p *Predictions) Len() (keys, spaces int) {
	for _, s := range p.spaces {
		keys += len(s.of)
	}
	return keys, len(p.spaces)
}

// Of returns the touches of one space and bucket as runs, in a stable order.
// O(groups of the space).
func (p *Predictions) Of(id PredictionSpace, bucket int64) (out []Prediction) {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		out, cursor = p.AppendOf(out, id, bucket, cursor, 1<<30)
	}
	SortPredictions(out)
	return out
}

// Bytes is what the kept slots hold now, overhead included.
func (r *Ring) Bytes() int { return r.bytes }
