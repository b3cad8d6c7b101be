package gossip_test

import (
	"fmt"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// quiet is a mesh that has met, knows some streams and scrapes and goes on
// without news; it returns the bytes a second and peer sends, lengths included.
func quiet(t testing.TB, peers, streams int, seconds int64) float64 {
	n := New(Config{Seed: 5})
	for range peers {
		n.Add()
	}
	n.Run(3_000)
	for i := range streams {
		e := n.Engine(fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250))
		at := n.Nodes()[i%peers]
		e.Ingest(at, true, e.Emit(1)...)
		for _, x := range n.Nodes() { // every peer has work at every replica
			x.State.SetLoad(e.Stream, crdt.Load{Version: 1, Waiting: 1})
		}
	}
	n.Run(20_000)
	if what := difference(n); what != "" {
		t.Fatal(what)
	}
	sent := func() (sum uint64) {
		for _, x := range n.Nodes() {
			for _, k := range x.Core.Stats().Sent {
				sum += k.Bytes + 4*k.Frames
			}
		}
		return sum
	}
	before := sent()
	n.Run(1_000 * seconds)
	return float64(sent()-before) / float64(seconds) / float64(peers)
}

// The budget of a mesh at rest: 8 peers that know 100 streams send at most
// 10 kB a second each.
func TestQuietMeshIsCheap(t *testing.T) {
	if got := quiet(t, 8, 100, 30); got > 10_000 {
		t.Errorf("%.0f bytes a second and peer", got)
	}
}

// BenchmarkQuietMesh is what a mesh at rest sends, per second and peer.
func BenchmarkQuietMesh(b *testing.B) {
	for _, size := range [][2]int{{8, 100}, {16, 1000}} {
		b.Run(fmt.Sprintf("peers=%d/streams=%d", size[0], size[1]), func(b *testing.B) {
			bytes := 0.0
			for b.Loop() {
				bytes = quiet(b, size[0], size[1], 10)
			}
			b.ReportMetric(bytes, "B/s/peer")
		})
	}
}
