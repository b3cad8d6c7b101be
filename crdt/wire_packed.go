package crdt

import "encoding/binary"

// MaxPackedSlots bounds the slots of one packed run.
const MaxPackedSlots = 4096

// AppendPacked appends slots, ascending, and losses in the form pushes go in:
// variable-width numbers, each slot by its distance from the one before and its
// time by the distance from now (microseconds, the sender's clock, which the
// receiver is told). 7 to 9 bytes a slot besides its body where AppendSlots
// takes 20, and 2 where it takes 8 for the rest.
func AppendPacked(dst []byte, slots []Slot, lost []Span, now int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(slots)))
	seq, ts := uint64(0), now
	for i := range slots {
		s := &slots[i]
		dst = binary.AppendUvarint(dst, s.Seq-seq)
		dst = binary.AppendVarint(dst, s.TS-ts)
		dst = binary.AppendUvarint(dst, uint64(len(s.Body)))
		seq, ts = s.Seq, s.TS
	}
	for i := range slots {
		dst = append(dst, slots[i].Body...)
	}
	return appendPackedSpans(dst, lost)
}

// DecodePacked decodes and validates what AppendPacked wrote with the same now.
func DecodePacked(b []byte, now int64) (slots []Slot, lost []Span, rest []byte, err error) {
	r := reader{b: b}
	slots = r.packedSlots(now)
	lost = r.packedSpans()
	rest, err = r.rest()
	if err != nil {
		return nil, nil, rest, err
	}
	return slots, lost, rest, nil
}

func (r *reader) packedSlots(now int64) []Slot {
	n := r.uvarint()
	if n > MaxPackedSlots || n*3 > uint64(len(r.b)) { // three bytes a slot at least
		r.fail("%d packed slots in %d bytes", n, len(r.b))
	}
	if r.err != nil || n == 0 {
		return nil
	}
	slots, sizes := make([]Slot, n), make([]uint64, n)
	seq, ts := uint64(0), now
	for i := range slots {
		d := r.uvarint()
		seq, ts = seq+d, ts+r.varint()
		if d == 0 || seq < d {
			r.fail("slots not ascending")
		}
		slots[i].Seq, slots[i].TS, sizes[i] = seq, ts, r.uvarint()
	}
	for i := range slots {
		if sizes[i] > uint64(len(r.b)) {
			r.fail("slot of %d bytes in %d", sizes[i], len(r.b))
			return nil
		}
		slots[i].Body = append([]byte{}, r.take(int(sizes[i]))...)
		if err := slots[i].Validate(); err != nil {
			r.fail("slot %d: %v", slots[i].Seq, err)
			return nil
		}
	}
	return slots
}

// appendPackedSpans appends ascending, disjoint spans by their distances.
func appendPackedSpans(dst []byte, s []Span) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	at := uint64(0)
	for _, x := range s {
		dst = binary.AppendUvarint(dst, x.From-at)
		dst = binary.AppendUvarint(dst, x.To-x.From)
		at = x.To
	}
	return dst
}

func (r *reader) packedSpans() []Span {
	n := r.uvarint()
	if n*2 > uint64(len(r.b)) || n > uint64(len(r.b)) {
		r.fail("%d packed spans in %d bytes", n, len(r.b))
	}
	if r.err != nil || n == 0 {
		return nil
	}
	out := make([]Span, n)
	at := uint64(0)
	for i := range out {
		from := at + r.uvarint()
		to := from + r.uvarint()
		if from < at || to < from {
			r.fail("packed span out of range")
			return nil
		}
		out[i], at = Span{from, to}, to
	}
	if !canonical(out) {
		r.fail("spans not ascending and disjoint")
		return nil
	}
	return out
}

// AppendPackedDigest appends a digest with variable-width numbers: about 35
// bytes where AppendDigest takes 76. now is as with AppendPacked.
func AppendPackedDigest(dst []byte, d *Digest, now int64) []byte {
	c := &d.Context
	for _, v := range [...]uint64{c.Epoch, c.Anchor, c.Floor} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = binary.AppendVarint(dst, c.LastTS-now)
	dst = appendPackedSpans(appendPackedSpans(appendPackedSpans(dst, c.Voids), c.Above), c.Lost)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, d.Base.Count), d.Base.Linked)
	return le.AppendUint64(le.AppendUint64(dst, d.Base.Facts), d.Base.KeyXOR)
}

// DecodePackedDigest decodes what AppendPackedDigest wrote with the same now.
func DecodePackedDigest(b []byte, now int64) (d Digest, rest []byte, err error) {
	r := reader{b: b}
	c := &d.Context
	c.Epoch, c.Anchor, c.Floor = r.uvarint(), r.uvarint(), r.uvarint()
	c.LastTS = now + r.varint()
	c.Voids, c.Above, c.Lost = r.packedSpans(), r.packedSpans(), r.packedSpans()
	d.Base.Count, d.Base.Linked = r.uvarint(), r.uvarint()
	d.Base.Facts, d.Base.KeyXOR = r.u64(), r.u64()
	if r.err == nil {
		if err := c.check(); err != nil {
			r.fail("%v", err)
		}
	}
	if rest, err = r.rest(); err != nil {
		return Digest{}, rest, err
	}
	return d, rest, nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("no number in %d bytes", len(r.b))
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("no number in %d bytes", len(r.b))
		return 0
	}
	r.b = r.b[n:]
	return v
}
