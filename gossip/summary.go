package gossip

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/banyan-llm/banyan/crdt"
)

// A digest round between peers that know packed frames is a summary first: one
// sum per bucket of streams and per bucket of prediction times. Details go only
// of the buckets that differ, scrapes only where the other has an older one,
// vitals of three peers, and registers only of the peers that the other does not
// hear.
//
//	a -> b  summary                    b compares with its own
//	b -> a  details, of what differs  a compares, stream by stream
//	a -> b  details of the same       b compares
//
// The last goes only if something differed or b is deaf to somebody.
const (
	maxSummaryBuckets = 256
	streamsPerBucket  = 4 // about, where there are few streams
	deafMs            = 1_500
)

// Flags of a details frame.
const (
	detailsReply = 1 << iota // the receiver's own are wanted
)

// summarySize is the number of buckets for n streams, a power of two.
func summarySize(n int) int {
	size := 1
	for size < maxSummaryBuckets && size*streamsPerBucket < n {
		size *= 2
	}
	return size
}

// summarised is what this peer's streams add up to, by bucket.
type summarised struct {
	sums []uint64
	ids  [][]crdt.StreamID // empty where nobody asks for them
}

// summaries compares sums first, so that equal peers exchange a few bytes.
type summaries struct {
	*base
	digests     *digests
	intents     *intents
	loads       *loads
	predictions *predictions
	scratch     []byte
}

// summariseStreams adds up all streams. With equal sums two peers have equal
// contexts and equal sums of all streams of the bucket. O(streams).
func (c *summaries) summariseStreams(size int) summarised {
	t := summarised{sums: make([]uint64, size), ids: make([][]crdt.StreamID, size)}
	for _, id := range c.state.Streams(nil) {
		d := c.digestOf(id)
		d.Context.LastTS = 0 // no part of what must be equal
		c.scratch = crdt.AppendPackedDigest(append(c.scratch[:0], id...), &d, 0)
		b := bucketOf(id, size)
		t.sums[b] ^= hash64(c.scratch)
		t.ids[b] = append(t.ids[b], id)
	}
	return t
}

func bucketOf(id crdt.StreamID, size int) int { return int(hash64([]byte(id)) % uint64(size)) }

// sendSummary begins a round with p.
func (c *summaries) sendSummary(p *peer) {
	t := c.summariseStreams(summarySize(len(c.state.Streams(nil))))
	b := c.newBody(64 + 8*len(t.sums))
	b = binary.AppendUvarint(b, uint64(len(t.sums)))
	for _, s := range t.sums {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	times := c.summariseTimes()
	b = binary.AppendUvarint(b, uint64(len(times)))
	for _, x := range times {
		b = binary.LittleEndian.AppendUint64(binary.AppendVarint(b, x.bucket), x.xor)
	}
	b = c.appendDeaf(b)
	c.sendAs(p.conns[Fast], kindSummary, kindDigest, c.appendNews(b, p), sentFrame{})
}

// timeSum is the sum of all predictions of one bucket of time.
type timeSum struct {
	bucket int64
	xor    uint64
}

// summariseTimes adds up the closed buckets of predictions, by time.
func (c *summaries) summariseTimes() []timeSum {
	var out []timeSum
	for _, s := range c.predictions.closedSums() {
		c.scratch = crdt.AppendPredictionSums(c.scratch[:0], []crdt.PredictionSum{s})
		i, ok := slices.BinarySearchFunc(out, s.Bucket, func(x timeSum, b int64) int { return int(x.bucket - b) })
		if !ok {
			out = slices.Insert(out, i, timeSum{bucket: s.Bucket})
		}
		out[i].xor ^= hash64(c.scratch)
	}
	return out
}

// deaf lists the peers that are not heard directly: their registers are asked
// of others.
func (c *summaries) deaf() []crdt.PeerID {
	var out []crdt.PeerID
	for _, p := range c.order {
		if p.conns[Fast] == nil || c.viewAge(p) > deafMs {
			out = append(out, p.id)
		}
	}
	return out
}

func (c *summaries) appendDeaf(b []byte) []byte {
	deaf := c.deaf()
	b = binary.AppendUvarint(b, uint64(len(deaf)))
	for _, id := range deaf {
		b = append(b, id[:]...)
	}
	return b
}

func readDeaf(r *reader) (out []crdt.PeerID) {
	n := r.uvarint()
	if n > uint64(len(r.b))/16 {
		r.fail(errShort)
		return nil
	}
	for range n {
		out = append(out, r.peer())
	}
	return out
}

// appendNews appends the scrapes that p has not got from here nor told of, some
// vitals, and operator intent.
func (c *summaries) appendNews(b []byte, p *peer) []byte {
	scrapes := c.state.Scrapes()
	scrapes = newer(scrapes, &p.scrapes, len(scrapes), func(s crdt.Scrape) uint64 { return s.Version })
	vitals := c.someVitals(p)
	return crdt.AppendIntents(crdt.AppendVitals(crdt.AppendScrapes(b, scrapes), vitals), c.state.Intents())
}

// vitalsPerFrame bounds the vitals on a frame of a round. All peers' change every
// second, so all of them on every frame were three quarters of what a mesh of
// whole routers sent at rest, and grew with their number.
const vitalsPerFrame = 3

// someVitals are this peer's vitals, and of those that are news to p by what is
// known here, the newest: the rest would be old news, mostly.
func (c *summaries) someVitals(p *peer) map[crdt.PeerID]crdt.Vitals {
	all := c.state.Vitals()
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(id crdt.PeerID) bool {
		return id == p.id || p.vitals[id] >= all[id].Version
	})
	rank := func(id crdt.PeerID) uint64 {
		if id == c.cfg.Self {
			return math.MaxUint64
		}
		return all[id].Version
	}
	slices.SortFunc(ids, func(a, b crdt.PeerID) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), slices.Compare(a[:], b[:]))
	})
	out := make(map[crdt.PeerID]crdt.Vitals, vitalsPerFrame)
	for _, id := range ids[:min(len(ids), vitalsPerFrame)] {
		out[id] = all[id]
	}
	return newer(out, &p.vitals, len(all), vitalsVersion)
}

func vitalsVersion(v crdt.Vitals) uint64 { return v.Version }

// newer is what of a table, or of a part of one with so many entries, is newer
// than has is, which then is as new.
func newer[K comparable, V any](table map[K]V, has *map[K]uint64, entries int, version func(V) uint64) map[K]V {
	if *has == nil || len(*has) > 2*entries+64 {
		*has = make(map[K]uint64, len(table))
	}
	out := make(map[K]V)
	for k, v := range table {
		if at, ok := (*has)[k]; !ok || version(v) > at {
			out[k] = v
			(*has)[k] = version(v)
		}
	}
	return out
}

// heard notes what the sender of a table has.
func heard[K comparable, V any](table map[K]V, has *map[K]uint64, version func(V) uint64) {
	if *has == nil {
		*has = make(map[K]uint64, len(table))
	}
	for k, v := range table {
		(*has)[k] = max((*has)[k], version(v))
	}
}

// takeNews joins what appendNews wrote.
func (c *summaries) takeNews(p *peer, r *reader) error {
	scrapes, err := read(r, crdt.DecodeScrapes)
	if err != nil {
		return fmt.Errorf("scrapes: %w", err)
	}
	vitals, err := read(r, crdt.DecodeVitals)
	if err != nil {
		return fmt.Errorf("vitals: %w", err)
	}
	intents, err := readIntents(r)
	if err != nil {
		return fmt.Errorf("intents: %w", err)
	}
	heard(scrapes, &p.scrapes, func(s crdt.Scrape) uint64 { return s.Version })
	heard(vitals, &p.vitals, vitalsVersion)
	c.state.JoinScrapes(scrapes)
	c.loads.takeVitals(p, vitals)
	c.intents.joinIntents(p, intents)
	return nil
}

// summaryFrame compares bucket by bucket and answers with details.
func (c *summaries) summaryFrame(cn *conn, r *reader) error {
	p := cn.peer
	size := r.uvarint()
	if size == 0 || size > maxSummaryBuckets || size*8 > uint64(len(r.b)) {
		return fmt.Errorf("tally of %d buckets in %d bytes", size, len(r.b))
	}
	mine := c.summariseStreams(int(size))
	var differ []uint64
	for i, s := range mine.sums {
		if r.u64() != s {
			differ = append(differ, uint64(i))
		}
	}
	times, err := c.takeTimes(r)
	if err != nil {
		return err
	}
	deaf := readDeaf(r)
	if r.err != nil {
		return r.err
	}
	if err := c.takeNews(p, r); err != nil {
		return fmt.Errorf("tally: %w", err)
	}
	if len(differ) == 0 {
		p.digestAt = c.now
		c.agreed(p, int(size), differ)
	}
	if c.fastRoom(cn) {
		c.sendDetails(p, detailsReply, mine, differ, times, deaf)
	}
	c.wake(c.now)
	return nil
}

// takeTimes reads the sums of predictions by time and names the buckets that
// differ from ours.
func (c *summaries) takeTimes(r *reader) (differ []int64, err error) {
	n := r.uvarint()
	if n*9 > uint64(len(r.b)) || n > uint64(len(r.b)) {
		return nil, fmt.Errorf("tally of %d times in %d bytes", n, len(r.b))
	}
	mine := c.summariseTimes()
	have := make(map[int64]uint64, len(mine))
	for _, x := range mine {
		have[x.bucket] = x.xor
	}
	for range n {
		bucket, xor := r.varint(), r.u64()
		if have[bucket] != xor && c.predictions.closed(bucket) {
			differ = append(differ, bucket)
		}
		delete(have, bucket)
	}
	for _, x := range mine {
		if _, left := have[x.bucket]; left {
			differ = append(differ, x.bucket)
		}
	}
	return differ, nil
}

// sendDetails sends the digests of the streams and the sums of the predictions
// in the buckets that differ, and the registers of peers that p is deaf to.
func (c *summaries) sendDetails(p *peer, flags byte, mine summarised, differ []uint64, times []int64, deaf []crdt.PeerID) {
	cn := p.conns[Fast]
	b := append(c.newBody(256+64*len(differ)), flags)
	b = binary.AppendUvarint(b, uint64(len(mine.sums)))
	b = binary.AppendUvarint(b, uint64(len(differ)))
	for _, i := range differ {
		b = binary.AppendUvarint(b, i)
	}
	n, digests := 0, []byte(nil)
	for _, i := range differ {
		for _, id := range mine.ids[i] {
			if len(digests) > c.lim.MessageBytes/4 {
				break // the rest with the next rounds
			}
			d := c.digestOf(id)
			digests, _ = cn.names.put(digests, id)
			digests = crdt.AppendPackedDigest(digests, &d, c.wall()*1000)
			n++
		}
	}
	b = append(binary.AppendUvarint(b, uint64(n)), digests...)
	b = binary.AppendUvarint(b, uint64(len(times)))
	for _, t := range times {
		b = binary.AppendVarint(b, t)
	}
	b = crdt.AppendPredictionSums(b, c.sumsOf(times))
	b = c.appendLoadsOf(b, deaf)
	b = c.appendDeaf(b)
	c.sendAs(cn, kindDetails, kindDigest, c.appendNews(b, p), sentFrame{})
}

// sumsOf are the sums of predictions in some buckets of time.
func (c *summaries) sumsOf(times []int64) (out []crdt.PredictionSum) {
	if len(times) == 0 {
		return nil
	}
	for _, s := range c.predictions.closedSums() {
		if slices.Contains(times, s.Bucket) {
			out = append(out, s)
		}
	}
	return out
}

// appendLoadsOf appends the registers of some peers, by id.
func (c *summaries) appendLoadsOf(b []byte, ids []crdt.PeerID) []byte {
	var some []crdt.PeerLoads
	if len(ids) > 0 {
		for _, l := range c.state.AllLoads(nil) {
			if slices.Contains(ids, l.Peer) {
				some = append(some, l)
			}
		}
	}
	return c.loads.appendLoads(b, some)
}

// detailsFrame compares every stream of the buckets that differ, and answers
// with our own side of them if that is wanted.
func (c *summaries) detailsFrame(cn *conn, r *reader) error {
	p, flags, size := cn.peer, r.u8(), r.uvarint()
	if size == 0 || size > maxSummaryBuckets {
		return fmt.Errorf("details of %d buckets", size)
	}
	n := r.uvarint()
	if n > size || n > uint64(len(r.b)) {
		return fmt.Errorf("details of %d buckets of %d", n, size)
	}
	differ := make([]uint64, 0, n)
	for range n {
		if differ = append(differ, r.uvarint()); differ[len(differ)-1] >= size {
			return fmt.Errorf("details: bucket out of range")
		}
	}
	p.digestAt = c.now
	if err := c.takeDigests(cn, r); err != nil {
		return err
	}
	times, deaf, err := c.takeRest(p, r)
	if err != nil {
		return err
	}
	c.agreed(p, int(size), differ)
	if flags&detailsReply != 0 && len(differ)+len(times)+len(deaf) > 0 && c.fastRoom(cn) {
		var mine summarised
		if len(differ) > 0 {
			mine = c.summariseStreams(int(size))
		} else {
			mine.sums = make([]uint64, size)
		}
		c.sendDetails(p, 0, mine, slices.Compact(slices.Sorted(slices.Values(differ))), times, deaf)
	}
	c.wake(c.now)
	return nil
}

// takeDigests compares the digests of a details frame.
func (c *summaries) takeDigests(cn *conn, r *reader) error {
	for range min(r.uvarint(), uint64(len(r.b))) {
		x := cn.told.take(r)
		if x == nil {
			break
		}
		d, rest, err := crdt.DecodePackedDigest(r.b, r.clock*1000)
		if err != nil {
			return fmt.Errorf("details: %w", err)
		}
		r.b = rest
		c.digests.compare(cn.peer, x.stream, &d)
	}
	return r.err
}

// takeRest takes what follows the digests: predictions, registers, news.
func (c *summaries) takeRest(p *peer, r *reader) (times []int64, deaf []crdt.PeerID, err error) {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		return nil, nil, fmt.Errorf("details of %d times", n)
	}
	for range n {
		times = append(times, r.varint())
	}
	sums, err := read(r, crdt.DecodePredictionSums)
	if err != nil {
		return nil, nil, fmt.Errorf("details: sums: %w", err)
	}
	if err := c.loads.takeLoads(p, r); err != nil {
		return nil, nil, err
	}
	if deaf = readDeaf(r); r.err != nil {
		return nil, nil, r.err
	}
	if err := c.takeNews(p, r); err != nil {
		return nil, nil, fmt.Errorf("details: %w", err)
	}
	c.predictions.repairPredictions(p, c.sumsOf(times), sums)
	return times, deaf, nil
}

// agreed ends a round with p: all buckets but those that differ hold the same
// there.
func (c *summaries) agreed(p *peer, size int, differ []uint64) {
	for _, id := range slices.Sorted(maps.Keys(c.digests.divergent)) {
		if c.digests.divergent[id][p.id] && !slices.Contains(differ, uint64(bucketOf(id, size))) {
			c.digests.converged(p, id)
		}
	}
	c.digests.staleDonor(p)
}

// hash64 is FNV-1a, finished by splitmix64. The mesh's own fingerprint keeps
// strangers out; nobody gains by collisions.
func hash64(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, x := range b {
		h = (h ^ uint64(x)) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
