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
