package radix_test

import (
	"math/bits"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/radix/workload"
)

// flatMap is the yardstick for matches: open addressing from key to a set of
// up to 64 holders, every key of the query probed.
type flatMap struct {
	keys []radix.Key
	sets []uint64
	mask uint64
}

func newFlatMap(x *workload.Index) *flatMap {
	const slots = 1 << 23
	f := &flatMap{keys: make([]radix.Key, slots), sets: make([]uint64, slots), mask: slots - 1}
	for _, c := range x.Chains {
		for _, h := range c.Holders {
			for _, k := range c.Keys {
				at := f.find(k)
				f.keys[at] = k
				f.sets[at] |= 1 << h
			}
		}
	}
	return f
}

func (f *flatMap) find(k radix.Key) uint64 {
	at := uint64(k) & f.mask
	for f.keys[at] != 0 && f.keys[at] != k {
		at = (at + 1) & f.mask
	}
	return at
}

func (f *flatMap) match(keys []radix.Key, depth *[workload.Holders]int) {
	alive := ^uint64(0)
	for i, k := range keys {
		set := f.sets[f.find(k)]
		for drop := alive &^ set; drop != 0; drop &= drop - 1 {
			depth[bits.TrailingZeros64(drop)] = i
		}
		if alive &= set; alive == 0 {
			return
		}
	}
	for ; alive != 0; alive &= alive - 1 {
		depth[bits.TrailingZeros64(alive)] = len(keys)
	}
}

// loadChase is the other yardstick.
var loadChase = sync.OnceValue(workload.Cycle)

// chaser measures a step of the chase in processor time; it goes on where it
// was, so that nothing is cached.
type chaser struct {
	at    uint32
	steps int
	cpu   time.Duration
}

func (c *chaser) run(steps int) {
	next := loadChase()
	start := cpuTime()
	for range steps {
		c.at = next[c.at]
	}
	c.cpu += cpuTime() - start
	c.steps += steps
}

func (c *chaser) ns() float64 { return float64(c.cpu) / float64(c.steps) }

// BenchmarkYardsticks measures matches of B mixed against the two yardsticks
// in turns, so that the ratios hold when the machine's speed does not.
func BenchmarkYardsticks(b *testing.B) {
	x, tree := loadB()
	qs := x.Queries(workload.Mixed, queries)
	flat, next := newFlatMap(x), loadChase()
	a := &asker{reader: tree.NewReader()}
	var buf []radix.Key
	var depth [workload.Holders]int
	var flatNs, treeNs, chaseNs time.Duration
	steps, asked, at := 0, 0, uint32(0)
	for b.Loop() {
		for turn := range 20 {
			part := qs[turn*queries/20 : (turn+1)*queries/20]
			a.took = a.took[:0]
			for i := range part {
				a.ask(&part[i])
			}
			for _, t := range a.took {
				treeNs += time.Duration(t)
			}
			for i := range part {
				buf = append(buf[:0], part[i].Keys...)
				start := time.Now()
				flat.match(buf, &depth)
				flatNs += time.Since(start)
			}
			start := time.Now()
			for range 5000 {
				at = next[at]
			}
			chaseNs += time.Since(start)
			steps += 5000
			asked += len(part)
		}
	}
	last := &qs[queries-1]
	a.ask(last)
	depth = [workload.Holders]int{}
	flat.match(last.Keys, &depth)
	for h, want := range depth {
		if got := a.match.Depth(radix.ClassGPU, radix.Holder(h)); got != want {
			b.Fatalf("holder %d: tree %d, flat map %d", h, got, want)
		}
	}
	ns := float64(treeNs) / float64(asked)
	b.ReportMetric(ns, "match-ns")
	b.ReportMetric(float64(flatNs)/float64(asked), "flat-ns")
	b.ReportMetric(float64(chaseNs)/float64(steps), "chase-ns")
	b.ReportMetric(float64(treeNs)/float64(flatNs), "of-flat")
	b.ReportMetric(ns/(float64(chaseNs)/float64(steps)), "of-chase")
	_ = at
}
