package zmtp

import (
	"context"
	"testing"
	"time"
)

// BenchmarkPubSub is one message of a topic, a sequence number and 200 bytes
// over loopback, both ends in this process.
func BenchmarkPubSub(b *testing.B) {
	p := mustPub(b, "127.0.0.1:0", Options{})
	s := DialSub(tcp(p.Addr()), "", Options{})
	defer s.Close()
	for p.Subscribers() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx := context.Background()
	if m, err := s.Recv(ctx); err != nil || m.Kind != Up {
		b.Fatal(m, err)
	}
	const window = 64 // messages on their way
	topic, seq, payload := make([]byte, 20), make([]byte, 8), make([]byte, 200)
	sent, got := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		p.Send(topic, seq, payload)
		for sent++; sent-got >= window; got++ {
			if _, err := s.Recv(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "messages/s")
}
