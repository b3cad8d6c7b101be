package kvevents

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// benchPayload is one batch of vLLM's map form: 16 stores of 16 blocks of 16
// tokens, ids below 128k as real vocabularies have.
func benchPayload() (payload []byte, blocks int) {
	p := new(pack).array(3).float(1.7e9).array(16)
	for i := range uint64(16) {
		run{first: 1<<62 + i*1000, parent: 1<<62 + i*1000 - 1, blocks: 16, size: 16, token: 90_000 + i*300}.appendTo(p)
	}
	return p.num(0).b, 256
}

func BenchmarkDecode(b *testing.B) {
	payload, blocks := benchPayload()
	var d Decoder
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, err := d.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
}

// BenchmarkDecodePack is the whole pure path from bytes to slot. The budget is
// 1 M blocks/s a core.
func BenchmarkDecodePack(b *testing.B) {
	full, blocks := benchPayload()
	single := encodeRuns(1.7e9, run{first: 1 << 62, parent: 7, blocks: 1, size: 16, token: 90_000})
	for _, tc := range []struct {
		name    string
		payload []byte
		blocks  int
	}{{"batch256", full, blocks}, {"single", single, 1}} {
		b.Run(tc.name, func(b *testing.B) {
			var d Decoder
			p := mustPacker(b, VLLM, 16)
			b.ReportAllocs()
			b.SetBytes(int64(len(tc.payload)))
			for b.Loop() {
				batch, err := d.Decode(tc.payload)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := p.Pack(1, batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*tc.blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
		})
	}
}

// countSink counts slots.
type countSink struct{ slots, deliveries atomic.Int64 }

func (s *countSink) Prior(crdt.StreamID) (Prior, bool)            { return Prior{}, false }
func (s *countSink) Exhausted(crdt.StreamID, uint64, []crdt.Span) {}
func (s *countSink) Deliver(d Delivery) {
	s.slots.Add(int64(len(d.Slots)))
	s.deliveries.Add(1)
}

// BenchmarkSubscriber is one batch of one 16-token block from a PUB socket
// over loopback to a delivered slot.
func BenchmarkSubscriber(b *testing.B) {
	pub, err := zmtp.ListenPub("127.0.0.1:0", zmtp.Options{Queue: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer pub.Close()
	sink := new(countSink)
	s, err := NewSubscriber(Config{Stream: "s", Events: "tcp://" + pub.Addr().String(), Grid: 16, Hasher: testHasher, Sink: sink})
	if err != nil {
		b.Fatal(err)
	}
	runUntilEnd(b, s.Run)
	for pub.Subscribers() == 0 {
		time.Sleep(time.Millisecond)
	}
	payload := encodeRuns(1.7e9, run{first: 1 << 62, parent: 7, blocks: 1, size: 16, token: 90_000})
	topic := []byte("kv@127.0.0.1:8000@m")
	sent := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		pub.Send(topic, binary.BigEndian.AppendUint64(nil, uint64(sent)), payload)
		sent++
		for sent-sink.slots.Load() > 5000 {
			time.Sleep(50 * time.Microsecond)
		}
	}
	for sink.slots.Load() < sent {
		time.Sleep(50 * time.Microsecond)
	}
	b.ReportMetric(float64(sent)/float64(max(sink.deliveries.Load(), 1)), "slots/delivery")
	if d := pub.Stats().Dropped; d > 0 {
		b.Fatalf("%d dropped", d)
	}
}
