package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// kind is what a frame carries. Numbers are part of the wire format.
type kind uint8

const (
	kindHello kind = iota + 1
	kindLoad
	kindSlots
	kindAck
	kindDigest
	kindWant
	kindSnapshot
	kindPredict
	kindIntent
	kindSession  // reserved: session bindings
	kindFragment // one piece of a frame that is too long for one
	kindPacked   // slots of many streams, counted as slots
	kindSummary  // begins a digest round, counted as digest
	kindDetails  // goes on with it
	kindKeys     // asks for or tells keys of facts; who does not know it skips it
	kinds
)

// kindNames are the frame names of the protocol and of metrics.
var kindNames = [kinds]string{"unknown", "hello", "load", "slots", "ack", "digest", "want", "snapshot", "predict", "intent", "session", "fragment", "slots", "digest", "digest", "keys"}

// String is the frame name of the protocol.
func (k kind) String() string {
	if k >= kinds {
		k = 0
	}
	return kindNames[k]
}

// frame is a decoded envelope: the msgpack array [version, kind, number,
// payload]. Receivers ignore further elements, so that a later version may
// add some.
type frame struct {
	version uint64
	kind    kind
	number  uint64 // per connection and direction, from 1, without gaps
	payload []byte // aliases the received bytes
}

const (
	envelopeBytes   = 1 + 2 + 1 + 9 + 5 // at most, without the payload
	maxArrayHead    = 0x0f
	maxEnvelopeKind = 0x7f
)

var errEnvelope = errors.New("not an envelope")

// encodeFrame puts a payload of less than 4 GiB into its envelope.
func encodeFrame(version uint8, k kind, number uint64, payload []byte) []byte {
	b := make([]byte, 0, envelopeBytes+len(payload))
	b = putUint(append(b, 0x94), uint64(version))
	b = putUint(append(b, byte(k)), number)
	switch n := len(payload); {
	case n <= math.MaxUint8:
		b = append(b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
	}
	return append(b, payload...)
}

// putUint writes an unsigned integer in its shortest form.
func putUint(b []byte, n uint64) []byte {
	switch {
	case n <= 0x7f:
		return append(b, byte(n))
	case n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

// decodeFrame checks and decodes one envelope; kinds this peer does not know
// come back as they are. It never panics and allocates nothing.
func decodeFrame(b []byte) (frame, error) {
	if err := scan(b); err != nil {
		return frame{}, err
	}
	if b[0]&0xf0 != 0x90 || b[0]&maxArrayHead < 4 {
		return frame{}, errEnvelope
	}
	var f frame
	var k uint64
	var ok [4]bool
	b = b[1:]
	f.version, b, ok[0] = uintOf(b)
	k, b, ok[1] = uintOf(b)
	f.number, b, ok[2] = uintOf(b)
	f.payload, ok[3] = binOf(b)
	if ok != [4]bool{true, true, true, true} {
		return frame{}, errEnvelope
	}
	if k == 0 || k > maxEnvelopeKind {
		return frame{}, fmt.Errorf("%w: kind %d", errEnvelope, k)
	}
	f.kind = kind(k)
	return f, nil
}

// FrameName is the frame label of a frame, one of FrameNames: "unknown" if it
// is no envelope or of a kind this peer does not know. A fragment counts as
// what it is a piece of. It accepts any bytes and allocates nothing.
func FrameName(data []byte) string {
	f, err := decodeFrame(data)
	if err != nil {
		return kind(0).String()
	}
	if f.kind == kindFragment { // its payload: the clock, then the kind
		if len(f.payload) <= clockBytes {
			return kind(0).String()
		}
		return kind(f.payload[clockBytes]).String()
	}
	return f.kind.String()
}

// clockBytes is the length of the sender's clock, which begins each payload.
const clockBytes = 8

// FrameNames is the closed list of the frame label in metrics, some twice.
func FrameNames() []string { return kindNames[:] }

// uintOf reads one unsigned integer of a value that scan accepted.
func uintOf(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	if b[0] <= 0x7f {
		return uint64(b[0]), b[1:], true
	}
	if b[0] < 0xcc || b[0] > 0xcf {
		return 0, nil, false
	}
	width := 1 << (b[0] - 0xcc)
	for _, x := range b[1 : 1+width] {
		n = n<<8 | uint64(x)
	}
	return n, b[1+width:], true
}

// binOf reads one byte string of a value that scan accepted.
func binOf(b []byte) ([]byte, bool) {
	if len(b) == 0 || b[0] < 0xc4 || b[0] > 0xc6 {
		return nil, false
	}
	width := 1 << (b[0] - 0xc4)
	n := 0
	for _, x := range b[1 : 1+width] {
		n = n<<8 | int(x)
	}
	return b[1+width : 1+width+n], true
}

// FrameSize is the size of a frame on a connection: its payload in the
// envelope, before TCP and TLS. number counts the frames of the connection.
func FrameSize(number uint64, payload int) int {
	n := 1 + 1 + 1 + len(putUint(make([]byte, 0, 9), number))
	switch {
	case payload <= math.MaxUint8:
		n += 2
	case payload <= math.MaxUint16:
		n += 3
	default:
		n += 5
	}
	return n + payload
}
