package gossip

import (
	"encoding/binary"

	"github.com/banyan-llm/banyan/crdt"
)

// Payloads are the packed columns of package crdt behind a few fixed-width
// little-endian fields of this one. Every count is checked against the bytes
// that are left before anything is allocated for it (I9).

func putU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

func clampU32(v int64) uint32 { return uint32(min(max(v, 0), 1<<32-1)) }

// read takes one value off the payload with a decoder of crdt.
func read[T any](r *reader, decode func([]byte) (T, []byte, error)) (v T, err error) {
	if r.err != nil {
		return v, r.err
	}
	v, rest, err := decode(r.b)
	if err != nil {
		r.fail(err)
		return v, err
	}
	r.b = rest
	return v, nil
}

func readContext(r *reader) (crdt.Context, error) { return read(r, crdt.DecodeContext) }

func readDigest(r *reader) (crdt.Digest, error) { return read(r, crdt.DecodeDigest) }

func readDelta(r *reader) (crdt.Delta, error) { return read(r, crdt.DecodeDelta) }

func readLoads(r *reader) ([]crdt.LoadEntry, error) { return read(r, crdt.DecodeLoads) }

func readPredictions(r *reader) ([]crdt.Prediction, error) { return read(r, crdt.DecodePredictions) }

func readIntents(r *reader) (map[crdt.StreamID]crdt.Intent, error) {
	return read(r, crdt.DecodeIntents)
}

// readSnapshotHead reads all of a snapshot but its pieces.
func readSnapshotHead(r *reader) (crdt.Snapshot, error) { return read(r, crdt.DecodeSnapshot) }
