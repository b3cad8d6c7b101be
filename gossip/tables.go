package gossip

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// The codecs of the small tables. Tables are written in the order of their
// keys, so that equal tables give equal bytes (I1).

func putF64(b []byte, v float64) []byte { return putU64(b, math.Float64bits(v)) }

// f64 reads a finite number: nothing here is ever infinite or not a number.
func (r *reader) f64() float64 {
	v := math.Float64frombits(r.u64())
	r.check(!math.IsNaN(v) && !math.IsInf(v, 0))
	return v
}

func appendLoads(b []byte, loads []crdt.LoadEntry) []byte {
	b = putU32(b, uint32(len(loads)))
	for i := range loads {
		l := &loads[i].Load
		b = putU64(putString(b, string(loads[i].Replica)), l.Version)
		b = putF64(putU32(b, uint32(l.Waiting)), l.Prefill)
		b = putU32(putU64(b, uint64(l.Tokens)), uint32(l.Streams))
		b = putU64(b, uint64(l.Blocks), uint64(l.FirstToken))
	}
	return b
}

func readLoads(r *reader) ([]crdt.LoadEntry, error) {
	n := r.count(minLoad)
	if n == 0 {
		return nil, r.err
	}
	loads := make([]crdt.LoadEntry, n)
	for i := range loads {
		loads[i].Replica = r.stream()
		loads[i].Load = crdt.Load{
			Version: r.u64(), Waiting: int32(r.u32()), Prefill: r.f64(), Tokens: r.i64(),
			Streams: int32(r.u32()), Blocks: r.i64(), FirstToken: r.i64(),
		}
	}
	return loads, r.err
}

func appendScrapes(b []byte, m map[crdt.StreamID]crdt.Scrape) []byte {
	b = putU32(b, uint32(len(m)))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		s := m[id]
		b = putU64(putString(b, string(id)), s.Version)
		b = putU32(putU32(b, uint32(s.Running)), uint32(s.Waiting))
		b = putU64(putU32(b, math.Float32bits(s.KVUse)), uint64(s.Capacity))
	}
	return b
}

func readScrapes(r *reader) (map[crdt.StreamID]crdt.Scrape, error) {
	n := r.count(minScrape)
	m := make(map[crdt.StreamID]crdt.Scrape, n)
	for range n {
		id := r.stream()
		s := crdt.Scrape{Version: r.u64(), Running: int32(r.u32()), Waiting: int32(r.u32())}
		s.KVUse, s.Capacity = math.Float32frombits(r.u32()), r.i64()
		r.check(s.KVUse >= 0 && s.KVUse <= math.MaxFloat32)
		m[id] = s
	}
	return m, r.err
}

func comparePeers(a, b crdt.PeerID) int { return bytes.Compare(a[:], b[:]) }

func appendVitals(b []byte, m map[crdt.PeerID]crdt.Vitals) []byte {
	b = putU32(b, uint32(len(m)))
	for _, id := range slices.SortedFunc(maps.Keys(m), comparePeers) {
		v := m[id]
		b = putU64(append(b, id[:]...), v.Version)
		b = putString(putString(putString(b, v.Name), v.HTTP), v.Build)
		b = putF64(putF64(b, v.Rate), v.P99)
		b = putFlag(putFlag(putU64(b, v.Facts, v.Memory), v.Ready), v.Draining)
		b = putU32(b, uint32(len(v.Ages)))
		for _, p := range slices.SortedFunc(maps.Keys(v.Ages), comparePeers) {
			b = putU64(append(b, p[:]...), uint64(v.Ages[p]))
		}
	}
	return b
}

func readVitals(r *reader) (map[crdt.PeerID]crdt.Vitals, error) {
	n := r.count(minVitals)
	m := make(map[crdt.PeerID]crdt.Vitals, n)
	for range n {
		id := r.peer()
		v := crdt.Vitals{Version: r.u64(), Name: r.str(), HTTP: r.str(), Build: r.str()}
		v.Rate, v.P99, v.Facts, v.Memory = r.f64(), r.f64(), r.u64(), r.u64()
		v.Ready, v.Draining = r.flag(), r.flag()
		ages := r.count(16 + 8)
		v.Ages = make(map[crdt.PeerID]int64, ages)
		for range ages {
			v.Ages[r.peer()] = r.i64()
		}
		m[id] = v
	}
	return m, r.err
}

func appendIntents(b []byte, m map[crdt.StreamID]crdt.Intent) []byte {
	b = putU32(b, uint32(len(m)))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		x := m[id]
		b = append(putU64(putString(b, string(id)), uint64(x.Time)), x.Peer[:]...)
		b = putF64(putFlag(b, x.Drain), x.Weight)
	}
	return b
}

func readIntents(r *reader) (map[crdt.StreamID]crdt.Intent, error) {
	n := r.count(minIntent)
	m := make(map[crdt.StreamID]crdt.Intent, n)
	for range n {
		id := r.stream()
		m[id] = crdt.Intent{Time: r.i64(), Peer: r.peer(), Drain: r.flag(), Weight: r.f64()}
	}
	return m, r.err
}
