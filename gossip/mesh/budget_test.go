//go:build unix

package mesh

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// BenchmarkPropagation is the budget "event received -> visible on all of 8
// peers at 100 k blocks/s, p99 <= 25 ms": 8 whole peers in one process over
// loopback and TLS, 64 streams, batches of 16 blocks, for two
// seconds a round, from the batch's time to the end of its Apply at every other
// peer. cpu-share says how busy the machine's cores were made, which all peers
// share here; the other rows show what that does to the tail. chase-ns is a step
// of the yardstick before and after.
func BenchmarkPropagation(b *testing.B) {
	for _, c := range []struct{ peers, rate int }{{8, 25_000}, {8, 50_000}, {8, 100_000}, {4, 100_000}} {
		b.Run(fmt.Sprintf("peers=%d/%dk", c.peers, c.rate/1000), func(b *testing.B) { propagation(b, c.peers, c.rate) })
	}
}

func propagation(b *testing.B, peers, rate int) {
	const streams, blocks = 64, 16
	delays := make([][]float64, peers) // ms
	nodes := octet(b, peers, func(i int, d *crdt.Delta) {
		now := time.Now().UnixMicro()
		for s := range d.Slots {
			delays[i] = append(delays[i], float64(now-d.Slots[s].TS)/1000)
		}
	}, nil)
	tellers := make([]*teller, streams)
	for i := range tellers {
		tellers[i] = newTeller(i)
	}
	bytes := func() (sum float64) {
		for _, n := range nodes {
			sum += n.value(b, "banyan_mesh_bytes_total", "out", "slots")
		}
		return sum
	}
	steps := takeYardstick()
	sent, wall := 0, time.Duration(0)
	before, cpu := bytes(), processCPU()
	for b.Loop() {
		f := begin(b, nodes, tellers, rate, blocks)
		time.Sleep(2 * time.Second)
		f.end()
		sent, wall = sent+f.sent, wall+f.took
	}
	spent := processCPU() - cpu
	equal(b, nodes)
	wire := bytes() - before
	matches(b, nodes, tellers, 100)
	steps.take()
	steps.report(b)
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
	b.ReportMetric(wire/float64(sent)/blocks/float64(peers-1), "wire-B/block/peer")
	b.ReportMetric(spent.Seconds()/wall.Seconds(), "cpu-share")
}

// octet starts peers that are connected to each other; came is told of slots
// from others, wires gives a peer its network; either may be nil.
func octet(b testing.TB, n int, came func(i int, d *crdt.Delta), wires func(i int) *wire) (nodes []*indexed) {
	b.Helper()
	for i := range n {
		cfg := config(string(rune('a' + i)))
		for _, x := range nodes {
			cfg.Join = append(cfg.Join, x.Addr())
		}
		if wires != nil {
			cfg.wire = wires(i)
		}
		var told func(*crdt.Delta)
		if came != nil {
			told = func(d *crdt.Delta) { came(i, d) }
		}
		p := newIndexed(b, cfg, told)
		if err := p.Start(); err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, p)
	}
	meet(b, nodes)
	return nodes
}

// processCPU is the CPU time this process has taken.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
