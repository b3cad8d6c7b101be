package crdt

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

const (
	loadBytes    = 2 + 48
	scrapeBytes  = 2 + 28
	vitalsBytes  = 16 + 8 + 6 + 32 + 2 + 4
	intentBytes  = 2 + 8 + 16 + 1 + 8
	maxVitalsAge = 24 // bytes an entry of Ages
)

// AppendLoads appends registers: 4 bytes, 50 and the replica's name each.
func AppendLoads(dst []byte, loads []LoadEntry) []byte {
	dst = le.AppendUint32(dst, uint32(len(loads)))
	for i := range loads {
		l := &loads[i].Load
		dst = appendString(dst, string(loads[i].Replica))
		dst = le.AppendUint64(dst, l.Version)
		dst = le.AppendUint32(dst, uint32(l.Waiting))
		dst = appendF64(dst, l.Prefill)
		dst = le.AppendUint64(dst, uint64(l.Tokens))
		dst = le.AppendUint32(dst, uint32(l.Streams))
		dst = le.AppendUint64(dst, uint64(l.Blocks))
		dst = le.AppendUint64(dst, uint64(l.FirstToken))
	}
	return dst
}

// DecodeLoads decodes registers.
func DecodeLoads(b []byte) (loads []LoadEntry, rest []byte, err error) {
	r := reader{b: b}
	if n := r.count(loadBytes); n > 0 {
		loads = make([]LoadEntry, n)
	}
	for i := range loads {
		loads[i] = LoadEntry{Replica: r.stream(), Load: Load{
			Version: r.u64(), Waiting: int32(r.u32()), Prefill: r.f64(), Tokens: r.i64(),
			Streams: int32(r.u32()), Blocks: r.i64(), FirstToken: r.i64(),
		}}
	}
	rest, err = r.rest()
	if err != nil {
		loads = nil
	}
	return loads, rest, err
}

// AppendScrapes appends a table of scrapes, sorted: 4 bytes, 30 and the
// replica's name each.
func AppendScrapes(dst []byte, m map[StreamID]Scrape) []byte {
	dst = le.AppendUint32(dst, uint32(len(m)))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		s := m[id]
		dst = appendString(dst, string(id))
		dst = le.AppendUint64(dst, s.Version)
		dst = le.AppendUint32(dst, uint32(s.Running))
		dst = le.AppendUint32(dst, uint32(s.Waiting))
		dst = le.AppendUint32(dst, math.Float32bits(s.KVUse))
		dst = le.AppendUint64(dst, uint64(s.Capacity))
	}
	return dst
}

// DecodeScrapes decodes a table of scrapes.
func DecodeScrapes(b []byte) (m map[StreamID]Scrape, rest []byte, err error) {
	r := reader{b: b}
	n := r.count(scrapeBytes)
	m = make(map[StreamID]Scrape, n)
	for range n {
		id := r.stream()
		s := Scrape{Version: r.u64(), Running: int32(r.u32()), Waiting: int32(r.u32())}
		s.KVUse, s.Capacity = math.Float32frombits(r.u32()), r.i64()
		if f := float64(s.KVUse); math.IsNaN(f) || math.IsInf(f, 0) {
			r.fail("cache use is not finite")
		}
		m[id] = s
	}
	return decodedMap(&r, m)
}

// decodedMap ends the decoding of a table.
func decodedMap[K comparable, V any](r *reader, m map[K]V) (map[K]V, []byte, error) {
	rest, err := r.rest()
	if err != nil {
		m = nil
	}
	return m, rest, err
}

// AppendVitals appends what peers say of themselves, sorted: about 70 bytes
// and the names each, 24 per age.
func AppendVitals(dst []byte, m map[PeerID]Vitals) []byte {
	dst = le.AppendUint32(dst, uint32(len(m)))
	for _, id := range sortedPeers(m) {
		v := m[id]
		dst = le.AppendUint64(append(dst, id[:]...), v.Version)
		dst = appendString(appendString(appendString(dst, v.Name), v.HTTP), v.Build)
		dst = appendF64(appendF64(dst, v.Rate), v.P99)
		dst = le.AppendUint64(le.AppendUint64(dst, v.Facts), v.Memory)
		dst = appendFlag(appendFlag(dst, v.Ready), v.Draining)
		dst = le.AppendUint32(dst, uint32(len(v.Ages)))
		for _, p := range sortedPeers(v.Ages) {
			dst = le.AppendUint64(append(dst, p[:]...), uint64(v.Ages[p]))
		}
	}
	return dst
}

func sortedPeers[V any](m map[PeerID]V) []PeerID {
	return slices.SortedFunc(maps.Keys(m), func(a, b PeerID) int { return slices.Compare(a[:], b[:]) })
}

// DecodeVitals decodes what peers say of themselves.
func DecodeVitals(b []byte) (m map[PeerID]Vitals, rest []byte, err error) {
	r := reader{b: b}
	n := r.count(vitalsBytes)
	m = make(map[PeerID]Vitals, n)
	for range n {
		id := r.peer()
		v := Vitals{Version: r.u64(), Name: r.str(), HTTP: r.str(), Build: r.str()}
		v.Rate, v.P99, v.Facts, v.Memory = r.f64(), r.f64(), r.u64(), r.u64()
		v.Ready, v.Draining = r.flag(), r.flag()
		if n := r.count(maxVitalsAge); n > 0 {
			v.Ages = make(map[PeerID]int64, n)
			for range n {
				p := r.peer()
				v.Ages[p] = r.i64()
			}
		}
		m[id] = v
	}
	return decodedMap(&r, m)
}

// AppendIntents appends operators' words, sorted: 4 bytes, 35 and the
// replica's name each.
func AppendIntents(dst []byte, m map[StreamID]Intent) []byte {
	dst = le.AppendUint32(dst, uint32(len(m)))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		i := m[id]
		dst = appendString(dst, string(id))
		dst = append(le.AppendUint64(dst, uint64(i.Time)), i.Peer[:]...)
		dst = appendF64(appendFlag(dst, i.Drain), i.Weight)
	}
	return dst
}

// DecodeIntents decodes operators' words.
func DecodeIntents(b []byte) (m map[StreamID]Intent, rest []byte, err error) {
	r := reader{b: b}
	n := r.count(intentBytes)
	m = make(map[StreamID]Intent, n)
	for range n {
		id := r.stream()
		m[id] = Intent{Time: r.i64(), Peer: r.peer(), Drain: r.flag(), Weight: r.f64()}
	}
	return decodedMap(&r, m)
}

const (
	predictionBytes = 4 + 8 + 8 + 8 + 1 + 8 + 4
	sumBytes        = 4 + 8 + 8 + 8 + 4
)

// names numbers the replicas of a list, so that each is written once.
type names struct {
	at   map[StreamID]uint32
	list []StreamID
}

func (n *names) add(id StreamID) {
	if n.at == nil {
		n.at = make(map[StreamID]uint32)
	}
	if _, ok := n.at[id]; !ok {
		n.at[id] = uint32(len(n.list))
		n.list = append(n.list, id)
	}
}

func (n *names) append(dst []byte) []byte {
	dst = le.AppendUint32(dst, uint32(len(n.list)))
	for _, id := range n.list {
		dst = appendString(dst, string(id))
	}
	return dst
}

func (r *reader) names() []StreamID {
	n := r.count(2)
	out := make([]StreamID, 0, n)
	for range n {
		out = append(out, r.stream())
	}
	return out
}

func (r *reader) name(list []StreamID) StreamID {
	i := r.u32()
	if int64(i) >= int64(len(list)) {
		r.fail("name %d of %d", i, len(list))
		return ""
	}
	return list[i]
}

// AppendPredictions appends predictions: 41 bytes and 8 a key each, every
// replica's name once.
func AppendPredictions(dst []byte, list []Prediction) []byte {
	var n names
	for i := range list {
		n.add(list[i].Space.Replica)
	}
	dst = le.AppendUint32(n.append(dst), uint32(len(list)))
	for i := range list {
		p := &list[i]
		dst = le.AppendUint32(dst, n.at[p.Space.Replica])
		dst = le.AppendUint64(dst, p.Space.Root)
		dst = le.AppendUint64(le.AppendUint64(dst, uint64(p.Time)), uint64(p.TTL))
		dst = le.AppendUint64(appendFlag(dst, p.Absent), p.Parent)
		dst = le.AppendUint32(dst, uint32(len(p.Keys)))
		for _, k := range p.Keys {
			dst = le.AppendUint64(dst, k)
		}
	}
	return dst
}

// DecodePredictions decodes predictions.
func DecodePredictions(b []byte) (list []Prediction, rest []byte, err error) {
	r := reader{b: b}
	replicas := r.names()
	if n := r.count(predictionBytes); n > 0 {
		list = make([]Prediction, n)
	}
	for i := range list {
		p := &list[i]
		p.Space = PredictionSpace{Replica: r.name(replicas), Root: r.u64()}
		p.Time, p.TTL, p.Absent, p.Parent = r.i64(), r.i64(), r.flag(), r.u64()
		p.Keys = r.column(r.count(8))
		if r.err != nil {
			break
		}
	}
	rest, err = r.rest()
	if err != nil {
		list = nil
	}
	return list, rest, err
}

// AppendPredictionSums appends sums: 32 bytes each, every replica's name once.
func AppendPredictionSums(dst []byte, sums []PredictionSum) []byte {
	var n names
	for i := range sums {
		n.add(sums[i].Space.Replica)
	}
	dst = le.AppendUint32(n.append(dst), uint32(len(sums)))
	for i := range sums {
		s := &sums[i]
		dst = le.AppendUint32(dst, n.at[s.Space.Replica])
		dst = le.AppendUint64(le.AppendUint64(dst, s.Space.Root), uint64(s.Bucket))
		dst = le.AppendUint32(le.AppendUint64(dst, s.XOR), s.Count)
	}
	return dst
}

// DecodePredictionSums decodes sums.
func DecodePredictionSums(b []byte) (sums []PredictionSum, rest []byte, err error) {
	r := reader{b: b}
	replicas := r.names()
	if n := r.count(sumBytes); n > 0 {
		sums = make([]PredictionSum, n)
	}
	for i := range sums {
		s := &sums[i]
		s.Space = PredictionSpace{Replica: r.name(replicas), Root: r.u64()}
		s.Bucket, s.XOR, s.Count = r.i64(), r.u64(), r.u32()
		if r.err != nil {
			break
		}
	}
	rest, err = r.rest()
	if err != nil {
		sums = nil
	}
	return sums, rest, err
}

// compareSpaces orders spaces by replica and root.
func compareSpaces(a, b PredictionSpace) int {
	return cmp.Or(cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Root, b.Root))
}
