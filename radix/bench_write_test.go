package radix_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/radix/workload"
)

// writing runs op once per iteration on a fresh tree that prepare filled, and
// reports op's rate; of-chase is its processor time per block in steps of the
// chase, measured before and after.
func writing(b *testing.B, prepare func(*radix.Tree), op func(*radix.Tree) (blocks int)) {
	b.Helper()
	blocks, cpu := 0, time.Duration(0)
	var chase chaser
	var st radix.Stats
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		t := newTree(workload.Holders)
		if prepare != nil {
			prepare(t)
		}
		runtime.GC()
		chase.run(50_000)
		begin := cpuTime()
		b.StartTimer()
		blocks += op(t)
		b.StopTimer()
		cpu += cpuTime() - begin
		chase.run(50_000)
		st = t.Stats()
		t.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(blocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(blocks), "ns/block")
	b.ReportMetric(float64(cpu)/float64(blocks), "cpu-ns/block")
	b.ReportMetric(float64(cpu)/float64(blocks)/chase.ns(), "of-chase")
	if st.Facts > 0 {
		b.ReportMetric(float64(st.Bytes)/float64(st.Facts), "B/fact")
	}
}

func BenchmarkApply(b *testing.B) {
	x, _ := loadB()
	b.Run("B/run256", func(b *testing.B) {
		writing(b, nil, func(t *radix.Tree) int { return storeChains(t, x.Root, x.Chains) })
	})
	b.Run("B/again256", func(b *testing.B) {
		writing(b, func(t *radix.Tree) { storeChains(t, x.Root, x.Chains) },
			func(t *radix.Tree) int { return storeChains(t, x.Root, x.Chains) })
	})
	b.Run("B/interleaved16", func(b *testing.B) {
		writing(b, nil, func(t *radix.Tree) int { return interleave(t, x, x.Chains, 16) })
	})
	b.Run("B/single", func(b *testing.B) {
		writing(b, nil, func(t *radix.Tree) int { return interleave(t, x, x.Chains[:4000], 1) })
	})
	b.Run("B1/run256", func(b *testing.B) {
		x1, _ := loadB1()
		writing(b, nil, func(t *radix.Tree) int { return storeChains(t, x1.Root, x1.Chains) })
	})
	l, _ := loadL()
	b.Run("L/phase1", func(b *testing.B) {
		writing(b, nil, func(t *radix.Tree) int { return storeL1(t, l) })
	})
	b.Run("L/phase2", func(b *testing.B) {
		writing(b, func(t *radix.Tree) { storeL1(t, l) }, func(t *radix.Tree) int { return storeL2(t, l) })
	})
}

// interleave stores events of size blocks, 64 chains taking turns, as batches
// of running requests arrive.
func interleave(t *radix.Tree, x *workload.Index, chains []workload.Chain, size int) (blocks int) {
	for first := 0; first < len(chains); first += 64 {
		group := chains[first:min(first+64, len(chains))]
		for at := 0; at < workload.ChainBlocks; at += size {
			for i, c := range group {
				parent := x.Root
				if at > 0 {
					parent = c.Keys[at-1]
				}
				for _, h := range c.Holders {
					t.Store(radix.Holder(h), parent, 1, c.Keys[at:at+size], c.Handles[at:at+size], stored(uint64(i+at)))
					blocks += size
				}
			}
		}
	}
	return blocks
}

func BenchmarkRemove(b *testing.B) {
	x, _ := loadB()
	fill := func(t *radix.Tree) { storeChains(t, x.Root, x.Chains) }
	b.Run("B/tails", func(b *testing.B) {
		writing(b, fill, func(t *radix.Tree) int { return removeTails(t, x.Chains, 192) })
	})
	b.Run("B/single", func(b *testing.B) {
		writing(b, fill, func(t *radix.Tree) int { return removeTails(t, x.Chains[:4000], 1) })
	})
}

// removeTails removes the 192 tail blocks of every chain, last block first,
// size blocks an event.
func removeTails(t *radix.Tree, chains []workload.Chain, size int) (blocks int) {
	handles := make([]uint64, 0, workload.ChainBlocks)
	for _, c := range chains {
		handles = handles[:0]
		for j := workload.ChainBlocks - 1; j >= workload.SharedBlocks; j-- {
			handles = append(handles, c.Handles[j])
		}
		for _, h := range c.Holders {
			for at := 0; at < len(handles); at += size {
				t.Remove(radix.Holder(h), handles[at:at+size], gone)
			}
			blocks += len(handles)
		}
	}
	return blocks
}

func BenchmarkClear(b *testing.B) {
	x, _ := loadB()
	longest := time.Duration(0)
	writing(b, func(t *radix.Tree) { storeChains(t, x.Root, x.Chains) }, func(t *radix.Tree) int {
		facts := t.Stats().Facts
		for h := range radix.Holder(workload.Holders) {
			for done := false; !done; {
				start := time.Now()
				done = t.Clear(h, 4096)
				longest = max(longest, time.Since(start))
			}
		}
		if left := t.Stats(); left.Facts != 0 || left.Keys != 0 {
			b.Fatalf("left %+v", left)
		}
		return facts
	})
	b.ReportMetric(float64(longest.Microseconds()), "max-step-us")
}

func BenchmarkEnumerate(b *testing.B) {
	_, tree := loadB()
	facts, longest, cpu := 0, time.Duration(0), cpuTime()
	for b.Loop() {
		for h := range radix.Holder(workload.Holders) {
			for cursor := uint64(0); ; {
				start := time.Now()
				cursor = tree.Runs(h, cursor, 4096, func(r radix.Run) { facts += len(r.Handles) })
				longest = max(longest, time.Since(start))
				if cursor == 0 {
					break
				}
			}
		}
	}
	if facts != b.N*tree.Stats().Facts {
		b.Fatalf("enumerated %d facts of %d", facts, b.N*tree.Stats().Facts)
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(facts), "ns/fact")
	b.ReportMetric(float64(cpuTime()-cpu)/float64(facts), "cpu-ns/fact")
	b.ReportMetric(float64(longest.Microseconds()), "max-step-us")
}

// BenchmarkTop ranks all lines of B in one step.
func BenchmarkTop(b *testing.B) {
	_, tree := loadB()
	for b.Loop() {
		if top := tree.Top(20); len(top) != 20 || len(top[0].Holders) < 40 {
			b.Fatalf("top %v", top)
		}
	}
}

// BenchmarkCollector runs the garbage collector over 10 M unshared facts.
func BenchmarkCollector(b *testing.B) {
	tree := newTree(workload.Holders)
	defer tree.Close()
	keys, handles := make([]radix.Key, 256), make([]uint64, 256)
	for c := range uint64(39_063) {
		k := hasher.Root("collector")
		for j := range keys {
			k = hasher.Chain(k, radix.TokenHash(workload.Mix(c<<16+uint64(j))))
			keys[j], handles[j] = k, workload.Mix(uint64(k))
		}
		tree.Store(radix.Holder(c%workload.Holders), 0, 1, keys, handles, stored(c))
	}
	runtime.GC()
	var walls, pauses []time.Duration
	for b.Loop() {
		start := time.Now()
		runtime.GC()
		walls = append(walls, time.Since(start))
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		// PauseNs adds up both stops of a collection.
		pauses = append(pauses, time.Duration(m.PauseNs[(m.NumGC+255)%256]))
	}
	slices.Sort(walls)
	slices.Sort(pauses)
	st := tree.Stats()
	for _, c := range tree.Columns() {
		b.Logf("%5.1f MB %s", float64(c.Bytes)/1e6, c.Name)
	}
	// Others on the machine lengthen both: the least is the collector's own.
	b.ReportMetric(float64(walls[0])/1e3, "least-wall-us")
	b.ReportMetric(float64(walls[len(walls)/2])/1e3, "p50-wall-us")
	b.ReportMetric(float64(pauses[0])/1e3, "least-pause-us")
	b.ReportMetric(float64(pauses[len(pauses)/2])/1e3, "p50-pause-us")
	b.ReportMetric(float64(st.Bytes)/float64(st.Facts), "B/fact")
	b.ReportMetric(float64(st.Facts), "facts")
}
