package simulation

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/simulation/replica"
)

// Times of the protocol that an evaluation does not vary, in seconds
// (gossip/times.go, gossip/beat.go).
const (
	heartbeatEvery = 0.2
	heartbeats     = 15 // at a time; more only where 16 times do not reach all
	maxCrowd       = 16
	predictAfter   = 0.01
	ackAfter       = 0.05
	digestEvery    = 1.5
)

// gridTokens is what one handle, one token hash and one block key stand for.
const gridTokens = 16

// traffic counts the bytes of the frames that the peers would send each other
// for what happens in an evaluation, before TCP and TLS. Contents are encoded
// by the real codecs; when a frame goes follows the protocol's rules: one
// owner a stream, loads at once or coalesced, heartbeats, acks, digest rounds.
// A mesh without faults is assumed: nothing is sent again or pulled.
type traffic struct {
	peers, others int
	urgent, rest  float64 // seconds a dispatch, another change of load waits
	names         []crdt.StreamID
	talkers       []talker
	seq           []uint64 // per replica: slots so far
	pages         int      // grid blocks a page of the simulation
	build         crdt.Builder
	words         []uint64 // as many as the largest column
	buf           []byte
	bytes         map[string]int64 // by frame name
}

// talker is what one peer has to say.
type talker struct {
	dirty     uint64 // replicas whose register changed
	due, sent float64
	expected  []int // waiting predictions, in grid blocks
	predictAt float64
	ackAt     float64 // when its bulk frames are next acknowledged
	frames    uint64
}

// newTraffic is nil, which counts nothing, for a peer without others.
func newTraffic(cfg *Config) *traffic {
	if cfg.Peers < 2 {
		return nil
	}
	t := &traffic{
		peers: cfg.Peers, others: cfg.Peers - 1, urgent: cfg.DispatchDelay, rest: cfg.LoadDelay,
		talkers: make([]talker, cfg.Peers), seq: make([]uint64, cfg.Replicas),
		pages: max(cfg.Page/gridTokens, 1), bytes: make(map[string]int64),
	}
	for k := range cfg.Replicas {
		t.names = append(t.names, crdt.StreamID(fmt.Sprintf("http://10.0.0.%d:8000", k+1)))
	}
	for i := range t.talkers {
		t.talkers[i].due, t.talkers[i].predictAt = math.Inf(1), math.Inf(1)
	}
	return t
}

// send counts one frame to each of so many peers.
func (t *traffic) send(p *talker, name string, payload, to int) {
	p.frames++
	t.bytes[name] += int64(to) * int64(gossip.FrameSize(p.frames, payload))
}

// bulk counts a frame to all that is acknowledged, several at a time.
func (t *traffic) bulk(now float64, p *talker, name string, payload int) {
	t.send(p, name, payload, t.others)
	if now >= p.ackAt {
		p.ackAt = now + ackAfter
		t.send(p, "ack", 1+16, t.others)
	}
}

// slot counts a step's events of a replica, on their way from its owner.
func (t *traffic) slot(now float64, k int, events []replica.KVEvent) {
	if t == nil || len(events) == 0 {
		return
	}
	t.build.Reset()
	op := crdt.Op{Main: true, PerPage: 1}
	for i := range events {
		e := &events[i]
		n := t.pages
		if e.Kind == replica.Stored {
			n *= len(e.Keys)
			op.HasParent, op.Parent = true, e.Parent+1
			t.build.Store(op, t.column(n), t.column(n))
			continue
		}
		t.build.Remove(op, t.column(n))
	}
	t.seq[k]++
	slot, err := t.build.Slot(t.seq[k], 1)
	if err != nil {
		return // more than a slot holds: a real engine's batches are cut before
	}
	t.buf = crdt.AppendPacked(t.buf[:0], []crdt.Slot{slot}, nil, 0)
	t.bulk(now, &t.talkers[k%t.peers], "slots", 1+sectionHead+len(t.buf))
}

// column is n words, whatever they are.
func (t *traffic) column(n int) []uint64 {
	for len(t.words) < n {
		t.words = append(t.words, 0x9e3779b97f4a7c15*uint64(len(t.words)+1))
	}
	return t.words[:n]
}

// load notes that a peer's register of a replica changed.
func (t *traffic) load(now float64, peer, k int, dispatch bool) {
	if t == nil {
		return
	}
	p := &t.talkers[peer]
	t.flush(now, p)
	p.dirty |= 1 << k
	due := now + t.rest
	if dispatch {
		due = math.Max(now, p.sent+t.urgent)
	}
	p.due = math.Min(p.due, due)
	t.flush(now, p)
}

// flush sends what is due.
func (t *traffic) flush(now float64, p *talker) {
	if p.predictAt <= now {
		t.predictions(p)
	}
	if p.due > now {
		return
	}
	t.silence(p, p.due)
	loads := make([]crdt.LoadEntry, 0, 16)
	for set := p.dirty; set != 0; set &= set - 1 {
		loads = append(loads, crdt.LoadEntry{Replica: t.names[bits.TrailingZeros64(set)]})
	}
	t.buf = crdt.AppendLoads(t.buf[:0], loads)
	t.send(p, "load", 1+len(t.buf), t.others)
	p.dirty, p.sent, p.due = 0, p.due, math.Inf(1)
}

// silence counts the heartbeats since a peer's last load frame.
func (t *traffic) silence(p *talker, until float64) {
	for p.sent+heartbeatEvery < until {
		p.sent += heartbeatEvery
		crowd := min((t.others+heartbeats-1)/heartbeats, maxCrowd)
		t.send(p, "ack", 1+2, (t.others+crowd-1)/crowd)
	}
}

// predict notes that a peer tells the others what it sent where.
func (t *traffic) predict(now float64, peer, tokens int) {
	if t == nil {
		return
	}
	p := &t.talkers[peer]
	t.flush(now, p)
	p.expected = append(p.expected, tokens/gridTokens)
	p.predictAt = math.Min(p.predictAt, now+predictAfter)
}

func (t *traffic) predictions(p *talker) {
	list := make([]crdt.Prediction, 0, 16)
	for _, n := range p.expected {
		list = append(list, crdt.Prediction{Space: crdt.PredictionSpace{Replica: t.names[0]}, Keys: t.column(n)})
	}
	t.buf = crdt.AppendPredictions(t.buf[:0], list)
	t.bulk(p.predictAt, p, "predict", len(t.buf))
	p.expected, p.predictAt = p.expected[:0], math.Inf(1)
}

// end counts what is due by then, the heartbeats and the digest rounds.
func (t *traffic) end(now float64) {
	if t == nil {
		return
	}
	tally, news := t.tally(), t.news()
	for i := range t.talkers {
		p := &t.talkers[i]
		t.flush(now, p)
		if t.rest < now { // peers that never hear of each other have no heartbeat either
			t.silence(p, now)
			for range int(now / digestEvery) {
				t.send(p, "digest", tally+news, 1)
				t.send(p, "digest", detailsSize+news, 1)
			}
		}
	}
}

// Sizes that do not depend on what is told.
const (
	sectionHead = 4  // flags, the stream's number on the connection, the age
	detailsSize = 10 // the answer of a peer that differs in nothing
	perBucket   = 4  // streams whose sums one number of a tally holds, at most
)

// tally is the size of a digest round's first frame: one sum for each bucket of
// streams, one or two for the predictions of late.
func (t *traffic) tally() int {
	buckets := 1
	for buckets*perBucket < len(t.names) {
		buckets *= 2
	}
	return 1 + 8*buckets + 1 + 2*(5+8) + 1
}

// news is the size of what both frames of a round carry besides: the scrapes and
// vitals that are newer than those told before, which is all of them after a
// second.
func (t *traffic) news() int {
	scrapes, vitals := map[crdt.StreamID]crdt.Scrape{}, map[crdt.PeerID]crdt.Vitals{}
	for _, id := range t.names {
		scrapes[id] = crdt.Scrape{}
	}
	for i := range t.peers {
		vitals[crdt.PeerID{byte(i), byte(i >> 8)}] = crdt.Vitals{Name: peerName(i)}
	}
	t.buf = crdt.AppendVitals(crdt.AppendScrapes(t.buf[:0], scrapes), vitals)
	return len(t.buf)
}

// total is all bytes of all peers.
func (t *traffic) total() (sum int64) {
	if t == nil {
		return 0
	}
	for _, n := range t.bytes {
		sum += n
	}
	return sum
}
