package mesh

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/banyan-llm/banyan/gossip"
)

// preamble opens every peer stream, before TLS: four bytes of magic, the
// version of the preamble, the class, and whether TLS follows. The first byte
// is none that memberlist's streams begin with.
type preamble struct {
	class gossip.Class
	tls   bool
}

const (
	magic           = "\xb0bny"
	preambleVersion = 1
	preambleBytes   = len(magic) + 3
	// labelByte begins every labelled stream and packet of memberlist
	// (label.go, hasLabelMsg).
	labelByte = 244
)

var (
	errMagic   = errors.New("not a peer stream")
	errVersion = errors.New("another version of peer streams")
)

func (p preamble) bytes() []byte {
	secure := byte(0)
	if p.tls {
		secure = 1
	}
	return append([]byte(magic), preambleVersion, byte(p.class), secure)
}

func parsePreamble(b []byte) (preamble, error) {
	if len(b) != preambleBytes || string(b[:len(magic)]) != magic {
		return preamble{}, errMagic
	}
	b = b[len(magic):]
	if b[0] != preambleVersion {
		return preamble{}, fmt.Errorf("%w: %d", errVersion, b[0])
	}
	if b[1] >= gossip.Classes || b[2] > 1 {
		return preamble{}, errMagic
	}
	return preamble{class: gossip.Class(b[1]), tls: b[2] == 1}, nil
}

// readPreamble reads what follows the first byte of a peer stream.
func readPreamble(r io.Reader, first byte) (preamble, error) {
	b := make([]byte, preambleBytes)
	b[0] = first
	if _, err := io.ReadFull(r, b[1:]); err != nil {
		return preamble{}, err
	}
	return parsePreamble(b)
}

// labelHeader is what memberlist puts before every stream and packet of a
// cluster.
func labelHeader(label string) []byte {
	return append([]byte{labelByte, byte(len(label))}, label...)
}

// ours reports whether a packet begins with our label, and if not, whether it
// is of another cluster of the same kind.
func ours(packet, header []byte) (ok bool, why cause) {
	if bytes.HasPrefix(packet, header) {
		return true, ""
	}
	if len(packet) > 2 && packet[0] == labelByte && len(packet) > 2+int(packet[1]) {
		return false, causeLabel
	}
	return false, causeGarbage
}
