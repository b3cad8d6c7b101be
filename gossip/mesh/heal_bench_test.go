//go:build unix

package mesh

import (
	"slices"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// BenchmarkHeal is the budget "a partition of 10 s under load is healed within
// 2 s": 8 whole peers at 100 k blocks/s, cut into halves both ways while the
// events of both go on. heal-s is from the end of the cut until every peer
// knows all that was told until then, with the load still on; meet-s until all
// connections stand again; p99-ms is the propagation within the halves
// meanwhile. With the load ended as the cut ends heal-s is until all contexts
// and sums are equal. In the end they are, and samples match. chase-ns is a step
// of the yardstick before and after.
func BenchmarkHeal(b *testing.B) {
	for _, loaded := range []bool{true, false} {
		b.Run(map[bool]string{true: "loaded", false: "at-rest"}[loaded], func(b *testing.B) {
			for b.Loop() {
				heal(b, 8, 100_000, 10*time.Second, loaded)
			}
		})
	}
}

func heal(b *testing.B, peers, rate int, cut time.Duration, loaded bool) {
	const streams, blocks = 64, 16
	c := newCable()
	delays := make([][]float64, peers) // ms, while cut
	nodes := octet(b, peers, func(i int, d *crdt.Delta) {
		if c.gap.Load() == nil {
			return
		}
		now := time.Now().UnixMicro()
		for s := range d.Slots {
			delays[i] = append(delays[i], float64(now-d.Slots[s].TS)/1000)
		}
	}, func(i int) *wire { return c.wire(i >= peers/2) })
	defer func() {
		for _, n := range nodes {
			n.end(b)
		}
	}()
	for i, n := range nodes {
		c.place(n.Addr(), i >= peers/2)
	}
	tellers := make([]*teller, streams)
	for i := range tellers {
		tellers[i] = newTeller(i)
	}
	steps := takeYardstick()
	f := begin(b, nodes, tellers, rate, blocks)
	time.Sleep(2 * time.Second)
	c.cut()
	time.Sleep(cut)
	if !loaded {
		f.end()
	}
	c.heal()
	healed := time.Now()
	want := nodes[0].index.All()
	for _, n := range nodes[1:] {
		for id, d := range n.index.All() {
			if d.Context.Floor > want[id].Context.Floor {
				want[id] = d
			}
		}
	}
	var met time.Duration
	for deadline := healed.Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if met == 0 && linked(nodes) {
			met = time.Since(healed)
		}
		if knowAll(nodes, want) && (loaded || same(nodes)) {
			break
		}
		if time.Now().After(deadline) {
			b.Fatal("not healed")
		}
	}
	took := time.Since(healed)
	if loaded {
		f.end()
	}
	if met == 0 {
		meet(b, nodes)
		met = time.Since(healed)
	}
	equal(b, nodes)
	matches(b, nodes, tellers, 100)
	steps.take()
	steps.report(b)
	var all []float64
	for i, n := range nodes {
		if err := n.Do(b.Context(), func() { all = append(all, delays[i]...) }); err != nil {
			b.Fatal(err)
		}
	}
	if len(all) < f.sent {
		b.Fatalf("%d slots spread within the halves while cut, of %d told in all", len(all), f.sent)
	}
	slices.Sort(all)
	b.ReportMetric(took.Seconds(), "heal-s")
	b.ReportMetric(met.Seconds(), "meet-s")
	b.ReportMetric(all[len(all)*99/100], "p99-ms")
	b.ReportMetric(float64(f.sent)*blocks/f.took.Seconds(), "blocks/s")
}

// linked reports whether all see each other.
func linked(nodes []*indexed) bool {
	for _, x := range nodes {
		for _, y := range nodes {
			if x != y && !x.sees(y.node) {
				return false
			}
		}
	}
	return true
}

// knowAll reports whether all peers' floors are at least those wanted.
func knowAll(nodes []*indexed, want map[crdt.StreamID]crdt.Digest) bool {
	for _, n := range nodes {
		for id, w := range want {
			if d, _ := n.index.Digest(id); d.Context.Floor < w.Context.Floor {
				return false
			}
		}
	}
	return true
}
