//go:build unix

package mesh

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// BenchmarkPropagation is the budget "event received -> visible on all of 8
// peers at 100 k blocks/s, p99 <= 25 ms": 8 whole peers in one process over
// loopback and TLS, each owner of 8 streams, batches of 16 blocks, for two
// seconds a round. The fold is a map; the index is not here. cpu-share says how
// busy the machine's cores were made, which 8 peers share here.
func BenchmarkPropagation(b *testing.B) {
	const peers, streams, rate, blocks = 8, 8, 100_000, 16
	var nodes []*full
	delays := make([][]float64, peers)
	for i := range peers {
		cfg := config(string(rune('a' + i)))
		cfg.tune = nil
		if i > 0 {
			cfg.Join = []string{nodes[0].Addr()}
		}
		f := startFull(b, 8<<20, cfg)
		seen := func(ms float64) { delays[i] = append(delays[i], ms) }
		if err := f.Do(b.Context(), func() { f.seen = seen }); err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, f)
	}
	for _, x := range nodes {
		for _, y := range nodes {
			for deadline := time.Now().Add(patience); x != y && !x.sees(y.node); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					b.Fatalf("%s does not see %s", x.cfg.Name, y.cfg.Name)
				}
			}
		}
	}
	var seqs [peers][streams]uint64
	sent, wall := 0, time.Duration(0)
	bytes := func() (sum float64) {
		for _, n := range nodes {
			sum += n.value(b, "banyan_mesh_bytes_total", "out", "slots")
		}
		return sum
	}
	before, cpu := bytes(), processCPU()
	for b.Loop() {
		began, first := time.Now(), sent
		for time.Since(began) < 2*time.Second {
			for sent-first < int(time.Since(began).Seconds()*rate/blocks) {
				i, j := sent%peers, sent/peers%streams
				seqs[i][j]++
				nodes[i].offer(b, crdt.StreamID("http://10.0.0."+string(rune('1'+i))+":8000#"+string(rune('0'+j))), seqs[i][j], blocks)
				sent++
			}
			time.Sleep(time.Millisecond)
		}
		wall += time.Since(began)
	}
	spent := processCPU() - cpu
	var all []float64
	for i, n := range nodes {
		if err := n.Do(b.Context(), func() { all = append(all, delays[i]...) }); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2], "p50-ms")
	b.ReportMetric(all[len(all)*99/100], "p99-ms")
	b.ReportMetric(float64(sent)*blocks/wall.Seconds(), "blocks/s")
	b.ReportMetric((bytes()-before)/float64(sent)/blocks/(peers-1), "wire-B/block/peer")
	b.ReportMetric(spent.Seconds()/wall.Seconds(), "cpu-share")
}

// offer folds one batch at its owner and tells the others.
func (f *full) offer(b *testing.B, id crdt.StreamID, seq uint64, blocks int) {
	words := make([]uint64, blocks)
	for i := range words {
		words[i] = seq<<8 | uint64(i)
	}
	var build crdt.Builder
	build.Store(crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: seq}, words, words)
	now := time.Now().UnixMilli()
	slot, err := build.Slot(seq, now*1000)
	if err != nil {
		b.Fatal(err)
	}
	f.inbox.call(func() {
		f.state.Apply(&crdt.Delta{Stream: id, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{slot}}, now)
		f.Post(gossip.Ingested{Stream: id, Epoch: 1, Slots: []crdt.Slot{slot}, ReceivedAt: now, First: true})
	})
}

// processCPU is the CPU time this process has taken.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
