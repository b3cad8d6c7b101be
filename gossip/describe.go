package gossip

import (
	"fmt"
	"strings"
)

// Describe puts one frame into words, for transcripts and debug logs. It
// accepts any bytes.
func Describe(data []byte) string {
	f, err := decodeFrame(data)
	if err != nil {
		return "garbage: " + err.Error()
	}
	r := &reader{b: f.payload}
	r.u64() // clock
	what, err := describePayload(f.kind, r)
	if err != nil {
		what = "garbage: " + err.Error()
	}
	return strings.TrimSpace(f.kind.String() + " " + what)
}

func describePayload(k kind, r *reader) (string, error) {
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
		s := fmt.Sprintf("%s epoch %d %v lost %v age %d ms", d.Stream, d.Epoch, slotSpans(d.Slots), d.Lost, age)
		return s + [4]string{"", " answer", "", " answer: snapshot follows"}[flags&3], err
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
	flags := r.u8()
	var out []string
	for range r.count(4) {
		id := r.stream()
		d, err := readDigest(r)
		if err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("%s epoch %d floor %d above %v count %d", id, d.Context.Epoch, d.Context.Floor, d.Context.Above, d.Base.Count))
	}
	s := "[" + strings.Join(out, "; ") + "]"
	if flags&digestReply != 0 {
		s += " reply please"
	}
	return s, r.err
}
