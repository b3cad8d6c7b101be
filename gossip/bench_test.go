package gossip_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
)

// still is a state that does nothing: what is left is the protocol itself.
type still struct {
	gossip.State
	seq   uint64
	slots []crdt.Slot
	loads []crdt.LoadEntry
}

func (s *still) Digest(crdt.StreamID) (crdt.Digest, bool) {
	return crdt.Digest{Context: crdt.Context{Epoch: 1, Anchor: 1, Floor: s.seq}}, true
}
func (s *still) Streams(dst []crdt.StreamID) []crdt.StreamID { return dst }
func (s *still) Slots(crdt.StreamID, uint64, []crdt.Span, int) []crdt.Slot {
	return s.slots
}

func (s *still) Apply(d *crdt.Delta, _ int64) crdt.Outcome {
	return crdt.Outcome{NewSlots: len(d.Slots)}
}

func (s *still) OwnLoads(dst []crdt.LoadEntry, _ bool) []crdt.LoadEntry {
	return append(dst, s.loads...)
}
func (s *still) JoinLoads(crdt.PeerID, []crdt.LoadEntry)        {}
func (s *still) AllLoads(dst []crdt.PeerLoads) []crdt.PeerLoads { return dst }
func (s *still) DropLoads(crdt.PeerID)                          {}
func (s *still) Scrapes() map[crdt.StreamID]crdt.Scrape         { return nil }
func (s *still) Vitals() map[crdt.PeerID]crdt.Vitals            { return nil }
func (s *still) Intents() map[crdt.StreamID]crdt.Intent         { return nil }
func (s *still) PredictionSums(int64) []crdt.PredictionSum      { return nil }

// core makes a core connected to k peers, and a function that acknowledges
// everything it sent to the bulk connections.
func core(b testing.TB, state gossip.State, k int) (*gossip.Core, func(now int64)) {
	self := crdt.PeerID{1}
	c, err := gossip.New(gossip.Config{Self: self, State: state, Rand: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		b.Fatal(err)
	}
	now := int64(gossiptest.Start)
	numbers := make([]uint64, 2*k+1)
	for i := range 2 * k {
		conn := gossip.Conn(i + 1)
		h := binary.LittleEndian.AppendUint64(nil, uint64(now))
		h = append(h, byte(i%2), 1, 1)
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
	return c, func(now int64) {
		for i := range k {
			fast := gossip.Conn(2*i + 1)
			a := binary.LittleEndian.AppendUint64(nil, uint64(now))
			a = append(a, 2)
			for _, conn := range []gossip.Conn{fast, fast + 1} {
				a = binary.LittleEndian.AppendUint64(a, uint64(conn))
				a = binary.LittleEndian.AppendUint64(a, c.SentFrames(conn))
			}
			numbers[fast]++
			c.Step(now, gossip.Received{Conn: fast, Data: gossip.Frame(1, 4, numbers[fast], a)})
		}
	}
}

// BenchmarkPush is the cost of one slot of 16 blocks at its owner, for 1 and
// 15 peers, acks included (one per 50 slots).
func BenchmarkPush(b *testing.B) {
	for _, peers := range []int{1, 15} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			s := &still{}
			c, ack := core(b, s, peers)
			now := int64(gossiptest.Start)
			body := make([]byte, 280)
			bytes := 0
			b.ReportAllocs()
			for b.Loop() {
				s.seq++
				s.slots = []crdt.Slot{{Seq: s.seq, TS: now, Body: body}}
				if s.seq%50 == 0 {
					now++
					ack(now)
				}
				for _, e := range c.Step(now, gossip.Ingested{Stream: "http://10.0.0.1:8000#0", Epoch: 1, Slots: s.slots, ReceivedAt: now, First: true}) {
					if e, ok := e.(gossip.Send); ok && e.Kind == "slots" {
						bytes += len(e.Data)
					}
				}
			}
			b.ReportMetric(float64(bytes)/float64(s.seq)/float64(peers)/16, "wire-B/block/peer")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(s.seq)/float64(peers), "ns/slot/peer")
		})
	}
}

// BenchmarkReceive is the cost of one slot frame at its receiver, without the
// fold.
func BenchmarkReceive(b *testing.B) {
	sender, ack := core(b, &still{slots: []crdt.Slot{{Seq: 1, Body: nil}}}, 1)
	now := int64(gossiptest.Start)
	ack(now)
	var payload []byte
	for _, e := range sender.Step(now, gossip.Ingested{Stream: "http://10.0.0.1:8000#0", Epoch: 1, Slots: []crdt.Slot{{Seq: 1}}, ReceivedAt: now, First: true}) {
		if e, ok := e.(gossip.Send); ok && e.Kind == "slots" {
			_, payload = gossip.Payload(e.Data)
		}
	}
	c, _ := core(b, &still{}, 1)
	frames := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		frames++
		c.Step(now, gossip.Received{Conn: 2, Data: gossip.Frame(1, 3, frames, payload)})
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
	now := int64(gossiptest.Start)
	b.ReportAllocs()
	for b.Loop() {
		if now++; now%50 == 0 {
			ack(now)
		}
		c.Step(now, gossip.LoadChanged{Urgent: true})
	}
}
