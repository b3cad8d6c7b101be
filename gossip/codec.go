package gossip

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"

	"github.com/banyan-llm/banyan/crdt"
)

func putU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

func clampU32(v int64) uint32 { return uint32(min(max(v, 0), 1<<32-1)) }

func put(b []byte, v any) []byte {
	var w bytes.Buffer
	if err := gob.NewEncoder(&w).Encode(v); err != nil {
		panic(err)
	}
	return append(putU32(b, uint32(w.Len())), w.Bytes()...)
}

func get[T any](r *reader) (v T, err error) {
	b := r.bytes(int(r.u32()))
	if r.err != nil {
		return v, r.err
	}
	err = gob.NewDecoder(bytes.NewReader(b)).Decode(&v)
	return v, err
}

func appendLoads(b []byte, l []crdt.LoadEntry) []byte        { return put(b, l) }
func readLoads(r *reader) ([]crdt.LoadEntry, error)          { return get[[]crdt.LoadEntry](r) }
func appendDelta(b []byte, d *crdt.Delta) []byte             { return put(b, d) }
func readDelta(r *reader) (crdt.Delta, error)                { return get[crdt.Delta](r) }
func appendContext(b []byte, c *crdt.Context) []byte         { return put(b, c) }
func readContext(r *reader) (crdt.Context, error)            { return get[crdt.Context](r) }
func appendDigest(b []byte, d *crdt.Digest) []byte           { return put(b, d) }
func readDigest(r *reader) (crdt.Digest, error)              { return get[crdt.Digest](r) }
func appendSums(b []byte, s []crdt.PredictionSum) []byte     { return put(b, s) }
func readSums(r *reader) ([]crdt.PredictionSum, error)       { return get[[]crdt.PredictionSum](r) }
func appendPredictions(b []byte, p []crdt.Prediction) []byte { return put(b, p) }
func readPredictions(r *reader) ([]crdt.Prediction, error)   { return get[[]crdt.Prediction](r) }
func appendScrapes(b []byte, m map[crdt.StreamID]crdt.Scrape) []byte {
	return put(b, m)
}

func readScrapes(r *reader) (map[crdt.StreamID]crdt.Scrape, error) {
	return get[map[crdt.StreamID]crdt.Scrape](r)
}
func appendVitals(b []byte, m map[crdt.PeerID]crdt.Vitals) []byte { return put(b, m) }
func readVitals(r *reader) (map[crdt.PeerID]crdt.Vitals, error) {
	return get[map[crdt.PeerID]crdt.Vitals](r)
}
func appendIntents(b []byte, m map[crdt.StreamID]crdt.Intent) []byte { return put(b, m) }
func readIntents(r *reader) (map[crdt.StreamID]crdt.Intent, error) {
	return get[map[crdt.StreamID]crdt.Intent](r)
}

func appendSnapshotHead(b []byte, s *crdt.Snapshot) []byte {
	h := *s
	h.Pieces = nil
	return put(b, h)
}
func readSnapshotHead(r *reader) (crdt.Snapshot, error) { return get[crdt.Snapshot](r) }
