package gossip_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// still is a state that does nothing: what is left is the protocol itself.
type still struct {
	gossip.State
	seq   uint64
	body  []byte // of every slot
	loads []crdt.LoadEntry
}

func (s *still) Digest(crdt.StreamID) (crdt.Digest, bool) {
	return crdt.Digest{Context: crdt.Context{Epoch: 1, Anchor: 1, Floor: s.seq}}, true
}
func (s *still) Streams(dst []crdt.StreamID) []crdt.StreamID { return dst }

func (s *still) Slots(_ crdt.StreamID, _ uint64, want []crdt.Span, _ int) (out []crdt.Slot) {
	for _, w := range want {
		for seq := w.From; seq <= w.To; seq++ {
			out = append(out, crdt.Slot{Seq: seq, TS: Start*1000 + int64(seq)*160, Body: s.body})
		}
	}
	return out
}

func (s *still) Apply(d *crdt.Delta, _ int64) crdt.Outcome {
	return crdt.Outcome{NewSlots: len(d.Slots)}
}

func (s *still) OwnLoads(dst []crdt.LoadEntry, _ bool) []crdt.LoadEntry {
	return append(dst, s.loads...)
}
func (s *still) Predicting(bool)                                {}
func (s *still) ClockSet(int64)                                 {}
func (s *still) JoinLoads(crdt.PeerID, []crdt.LoadEntry)        {}
func (s *still) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads { return dst }
func (s *still) DropLoads(crdt.PeerID)                          {}
func (s *still) Scrapes() map[crdt.StreamID]crdt.Scrape         { return nil }
func (s *still) Vitals() map[crdt.PeerID]crdt.Vitals            { return nil }
func (s *still) Intents() map[crdt.StreamID]crdt.Intent         { return nil }
func (s *still) PredictionSums(int64) []crdt.PredictionSum      { return nil }

// core makes a core connected to k peers, and a function that acknowledges
// everything it sent to the bulk connections and tells the bytes of slots that
// went meanwhile.
func core(b testing.TB, state gossip.State, k int) (*gossip.Core, func(now int64) int) {
	self := crdt.PeerID{1}
	c, err := gossip.New(gossip.Config{Self: self, State: state, Rand: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		b.Fatal(err)
	}
	now := int64(Start)
	numbers := make([]uint64, 2*k+1)
	for i := range 2 * k {
		conn := gossip.Conn(i + 1)
		h := binary.LittleEndian.AppendUint64(nil, uint64(now))
		h = append(h, byte(i%2), 1, gossip.Version)
		peer := crdt.PeerID{2, byte(i / 2)}
		h = append(h, peer[:]...)
		h = binary.LittleEndian.AppendUint64(h, 0)
		h = binary.LittleEndian.AppendUint64(h, uint64(conn))
		c.Step(now, gossip.MemberUp{Peer: peer})
		c.Step(now, gossip.Connected{Conn: conn, Class: gossip.Class(i % 2)})
		numbers[conn]++
		c.Step(now, gossip.Received{Conn: conn, Data: gossip.Frame(1, 1, 1, append(h, 0, 0, 0, 0))})
	}
	if p := c.Peers(); len(p) != k || !p[0].Connected[gossip.Bulk] {
		b.Fatal("not connected")
	}
	return c, func(now int64) (bytes int) {
		for i := range k {
			fast := gossip.Conn(2*i + 1)
			a := binary.LittleEndian.AppendUint64(nil, uint64(now))
			a = append(a, 2)
			for _, conn := range []gossip.Conn{fast, fast + 1} {
				a = binary.LittleEndian.AppendUint64(a, uint64(conn))
				a = binary.LittleEndian.AppendUint64(a, c.SentFrames(conn))
			}
			numbers[fast]++
			bytes += slotBytes(c.Step(now, gossip.Received{Conn: fast, Data: gossip.Frame(1, 4, numbers[fast], a)}))
		}
		return bytes
	}
}

const blocks = 16 // of a batch

// bodyOf is a batch as vLLM sends them: one run stored, or one removal.
func bodyOf(b testing.TB, stored bool) []byte {
	words := make([]uint64, blocks)
	for i := range words {
		words[i] = uint64(i) << 40
	}
	var build crdt.Builder
	if stored {
		build.Store(crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: 7}, words, words)
	} else {
		build.Remove(crdt.Op{}, words)
	}
	body, err := build.Bytes()
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// slotBytes are the bytes of slots on the wire, with the length before each
// frame.
func slotBytes(effects []gossip.Effect) (n int) {
	for _, e := range effects {
		if e, ok := e.(gossip.Send); ok && e.Kind == "slots" {
			n += 4 + len(e.Data)
		}
	}
	return n
}

// BenchmarkWireBytes is the budget of 20 bytes per stored block and 12 per
// removed, a peer, for batches of 16: of a slot that goes alone, and of slots
// that come so fast that they share frames. Beside it, the cost at the owner of
// one slot for all peers, acks included.
func BenchmarkWireBytes(b *testing.B) {
	for _, what := range []string{"stored", "removed"} {
		for _, way := range []string{"alone", "together"} {
			for _, peers := range []int{1, 15} {
				b.Run(fmt.Sprintf("%s/%s/peers=%d", what, way, peers), func(b *testing.B) {
					s := &still{body: bodyOf(b, what == "stored")}
					c, ack := core(b, s, peers)
					now := int64(Start)
					bytes := 0
					b.ReportAllocs()
					for b.Loop() {
						s.seq++
						if way == "alone" {
							now += 10
						} else if s.seq%4 == 0 {
							now++
						}
						if s.seq%64 == 0 {
							bytes += ack(now)
						}
						id := crdt.StreamID(streams[s.seq/4%8])
						bytes += slotBytes(c.Step(now, gossip.Ingested{Stream: id, Epoch: 1_700_000_000_000, Slots: crdt.Spans{{From: 1<<20 + s.seq, To: 1<<20 + s.seq}}, ReceivedAt: now, First: true}))
					}
					bytes += slotBytes(c.Step(now+100, gossip.Tick{}))
					b.ReportMetric(float64(bytes)/float64(s.seq)/float64(peers)/blocks, "wire-B/block/peer")
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(s.seq)/float64(peers), "ns/slot/peer")
				})
			}
		}
	}
}

var streams = [8]string{
	"http://10.0.0.1:8000#0", "http://10.0.0.2:8000#0", "http://10.0.0.3:8000#0", "http://10.0.0.4:8000#0",
	"http://10.0.0.5:8000#0", "http://10.0.0.6:8000#0", "http://10.0.0.7:8000#0", "http://10.0.0.8:8000#0",
}

// BenchmarkReceive is the cost of one frame with one slot at its receiver,
// without the fold.
func BenchmarkReceive(b *testing.B) {
	sender, ack := core(b, &still{body: bodyOf(b, true)}, 1)
	now := int64(Start)
	var named, again []byte
	var kind byte
	for range 2 {
		now += 10
		ack(now)
		for _, e := range sender.Step(now, gossip.Ingested{Stream: crdt.StreamID(streams[0]), Epoch: 1, Slots: crdt.Spans{{From: 1, To: 1}}, ReceivedAt: now, First: true}) {
			if e, ok := e.(gossip.Send); ok && e.Kind == "slots" {
				named = again
				kind, again = gossip.Payload(e.Data)
			}
		}
	}
	c, _ := core(b, &still{}, 1)
	c.Step(now, gossip.Received{Conn: 2, Data: gossip.Frame(1, kind, 2, named)})
	frames := uint64(2)
	b.ReportAllocs()
	for b.Loop() {
		frames++
		c.Step(now, gossip.Received{Conn: 2, Data: gossip.Frame(1, kind, frames, again)})
	}
	if s := c.Stats(); s.Applied != frames-1 || len(s.Rejected) > 0 {
		b.Fatalf("%d of %d applied, rejected %v", s.Applied, frames-1, s.Rejected)
	}
}

// BenchmarkLoadFlush is the cost of one dispatch: one changed register sent to
// 15 peers.
func BenchmarkLoadFlush(b *testing.B) {
	s := &still{loads: []crdt.LoadEntry{{Replica: "http://10.0.0.1:8000#0", Load: crdt.Load{Version: 1, Waiting: 3}}}}
	c, ack := core(b, s, 15)
	now := int64(Start)
	b.ReportAllocs()
	for b.Loop() {
		if now++; now%50 == 0 {
			ack(now)
		}
		c.Step(now, gossip.LoadChanged{Urgent: true})
	}
}
