package gossip

import (
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/crdt"
)

// Describer puts the frames of one direction of a connection into words, for
// transcripts. The zero value stands before the first.
type Describer struct{ told naming }

// Describe puts the next frame into words. It accepts any bytes.
func (w *Describer) Describe(data []byte) string {
	f, err := decodeFrame(data)
	if err != nil {
		return "garbage: " + err.Error()
	}
	r := &reader{b: f.payload}
	r.clock = int64(r.u64())
	what, err := w.payload(f.kind, r)
	if err != nil {
		what = "garbage: " + err.Error()
	}
	return strings.TrimSpace(f.kind.String() + " " + what)
}

func (w *Describer) payload(k kind, r *reader) (string, error) {
	switch k {
	case kindHello:
		h, err := decodeHello(r)
		return fmt.Sprintf("%s %q versions %d-%d", h.name, h.label, h.min, h.max), err
	case kindLoad:
		r.u8()
		l, err := readLoads(r)
		return fmt.Sprintf("%d registers", len(l)), err
	case kindSlots:
		flags := r.u8()
		age := r.u32()
		d, err := readDelta(r)
		s := fmt.Sprintf("%s epoch %d %v lost %v age %d ms", d.Stream, d.Epoch, crdt.SpansOf(d.Slots), d.Lost, age)
		return s + [4]string{"", " answer", "", " answer: snapshot follows"}[flags&3], err
	case kindPacked:
		return w.packed(r)
	case kindSummary:
		return fmt.Sprintf("tally of %d buckets", r.uvarint()), r.err
	case kindDetails:
		return w.details(r)
	case kindDigest:
		return describeDigest(r)
	case kindWant:
		mode, id := r.u8(), r.stream()
		ctx, err := readContext(r)
		what := [2]string{"delta", "snapshot"}[mode&1]
		return fmt.Sprintf("%s of %s beyond epoch %d floor %d above %v", what, id, ctx.Epoch, ctx.Floor, ctx.Above), err
	case kindSnapshot:
		pc, err := decodePiece(r)
		return fmt.Sprintf("%s piece %d of %d", pc.stream, pc.i+1, pc.of), err
	case kindAck:
		return "", nil
	case kindKeys:
		f, err := decodeKeys(r)
		if f.mode == keysAsk {
			return fmt.Sprintf("of %s epoch %d for %d facts, please", f.stream, f.epoch, len(f.handles)), err
		}
		return fmt.Sprintf("of %s epoch %d for %d facts", f.stream, f.epoch, len(f.told)), err
	case kindIntent:
		m, err := readIntents(r)
		return fmt.Sprintf("%d", len(m)), err
	case kindPredict:
		p, err := readPredictions(r)
		return fmt.Sprintf("%d", len(p)), err
	}
	return "", nil
}

func describeDigest(r *reader) (string, error) {
	r.u8()
	var out []string
	for range r.count(4) {
		id := r.stream()
		d, err := readDigest(r)
		if err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("%s epoch %d floor %d above %v count %d", id, d.Context.Epoch, d.Context.Floor, d.Context.Above, d.Base.Count))
	}
	return "[" + strings.Join(out, "; ") + "]", r.err
}

// packed describes a frame of pushes.
func (w *Describer) packed(r *reader) (string, error) {
	var out []string
	for range min(r.uvarint(), uint64(len(r.b))) {
		d, age, err := takeSection(&w.told, r)
		if err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("%s epoch %d %v lost %v age %d ms", d.Stream, d.Epoch, crdt.SpansOf(d.Slots), d.Lost, age))
	}
	return strings.Join(out, "; "), r.err
}

// details describes the digests of a round that found a difference.
func (w *Describer) details(r *reader) (string, error) {
	flags, _ := r.u8(), r.uvarint()
	n := r.uvarint()
	for range min(n, uint64(len(r.b))) {
		r.uvarint()
	}
	var out []string
	for range min(r.uvarint(), uint64(len(r.b))) {
		x := w.told.take(r)
		if x == nil {
			return "", r.err
		}
		d, rest, err := crdt.DecodePackedDigest(r.b, r.clock*1000)
		if err != nil {
			return "", err
		}
		r.b = rest
		out = append(out, fmt.Sprintf("%s epoch %d floor %d above %v count %d", x.stream, d.Context.Epoch, d.Context.Floor, d.Context.Above, d.Base.Count))
	}
	s := fmt.Sprintf("details of %d buckets [%s]", n, strings.Join(out, "; "))
	if flags&detailsReply != 0 && n > 0 {
		s += " reply please"
	}
	return s, r.err
}
