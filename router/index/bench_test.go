package index

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/radix/workload"
)

// Timings on a shared machine are noisy: cpu-ns/block is processor time, which
// neighbours disturb less. Every benchmark checks its facts or a sample of its
// answers.

const (
	benchChains = 4000
	benchRing   = 8 << 20
)

var benchSecret = []byte("bench secret 012")

// arrivals are slots in the order of arrival: they lie side by side, as what
// has just been read from a socket is at hand.
type arrivals struct {
	at    []int // feed
	slots []crdt.Slot
}

// traffic is a workload as engines tell it.
type traffic struct {
	arrivals
	ids    []crdt.StreamID // of the feeds
	seqs   []uint64        // their last ones
	blocks int
}

func newTraffic() *traffic {
	t := &traffic{ids: make([]crdt.StreamID, workload.Holders), seqs: make([]uint64, workload.Holders)}
	for h := range t.ids {
		t.ids[h] = crdt.StreamID(fmt.Sprintf("http://h%d#0", h))
	}
	return t
}

// split takes what came so far away: what comes next is measured.
func (t *traffic) split() (before arrivals) {
	before, t.arrivals, t.blocks = t.arrivals, arrivals{}, 0
	return before
}

func (t *traffic) add(h int, build func(*crdt.Builder)) {
	var b crdt.Builder
	build(&b)
	t.seqs[h]++
	s, err := b.Slot(t.seqs[h], int64(t.seqs[h]))
	if err != nil {
		panic(err)
	}
	t.at = append(t.at, h)
	t.slots = append(t.slots, s)
}

// store tells n blocks of a chain from block at on.
func (t *traffic) store(h int, root radix.Key, c *told, at, n int) {
	t.add(h, func(b *crdt.Builder) {
		op := crdt.Op{Main: true, PerPage: 1, Root: uint64(root)}
		if at > 0 {
			op.HasParent, op.Parent = true, c.handles[at-1]
		}
		b.Store(op, c.handles[at:at+n], c.hashes[at:at+n])
	})
	t.blocks += n
}

// told is a chain with its token hashes.
type told struct {
	handles, hashes []uint64
	holders         []int
}

// chainsOfB are B's chains with the token hashes that their keys are made of.
func chainsOfB(x *workload.Index, h *radix.Hasher) []told {
	out := make([]told, len(x.Chains))
	for i, c := range x.Chains {
		t := told{handles: c.Handles, holders: c.Holders, hashes: make([]uint64, len(c.Keys))}
		k := x.Root
		for j := range t.hashes {
			t.hashes[j] = workload.Mix(1<<32 + 1000*uint64(i) + uint64(j))
			if j < workload.SharedBlocks {
				t.hashes[j] = workload.Mix(1000*uint64(c.Prefix) + uint64(j))
			}
			k = h.Chain(k, radix.TokenHash(t.hashes[j]))
		}
		if k != c.Keys[len(c.Keys)-1] {
			panic("the workload's token hashes are others")
		}
		out[i] = t
	}
	return out
}

// interleaved stores chains in events of size blocks, 64 chains taking turns.
func interleaved(root radix.Key, chains []told, size int) *traffic {
	t := newTraffic()
	for group := range slices.Chunk(chains, 64) {
		for at := 0; at < workload.ChainBlocks; at += size {
			for i := range group {
				for _, h := range group[i].holders {
					t.store(h, root, &group[i], at, size)
				}
			}
		}
	}
	return t
}

// removals removes the last n blocks of every chain, in events of size.
func (t *traffic) removals(chains []told, n, size int) {
	for i := range chains {
		c := &chains[i]
		for _, h := range c.holders {
			for at := workload.ChainBlocks; at > workload.ChainBlocks-n; at -= size {
				t.add(h, func(b *crdt.Builder) { b.Remove(crdt.Op{Main: true}, c.handles[at-size:at]) })
				t.blocks += size
			}
		}
	}
}

func benchIndex() *Index {
	return New(Config{Hasher: radix.NewHasher(benchSecret), RingBytes: benchRing})
}

// play applies events one by one.
func (t *traffic) play(x *Index, events arrivals) {
	for i, h := range events.at {
		x.Apply(&crdt.Delta{Stream: t.ids[h], Epoch: 1, Anchor: 1, Slots: events.slots[i : i+1]}, 1)
	}
}

var benchB = sync.OnceValues(func() (*workload.Index, []told) {
	h := radix.NewHasher(benchSecret)
	x := workload.B(h, benchChains)
	return x, chainsOfB(x, h)
})

// chaser measures a step along the yardstick's cycle in processor time.
type chaser struct {
	at    uint32
	steps int
	cpu   time.Duration
}

var chaseCycle = sync.OnceValue(workload.Cycle)

func (c *chaser) run(steps int) {
	next := chaseCycle()
	start := cpuTime()
	for range steps {
		c.at = next[c.at]
	}
	c.cpu += cpuTime() - start
	c.steps += steps
}

func (c *chaser) ns() float64 { return float64(c.cpu) / float64(c.steps) }

// playing measures the application of a traffic, the last part of a feed.
func playing(b *testing.B, before arrivals, t *traffic) {
	b.Helper()
	var cpu time.Duration
	var st Stats
	var mallocs uint64
	var chase chaser
	for range b.N {
		b.StopTimer()
		x := benchIndex()
		t.play(x, before)
		runtime.GC()
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		chase.run(50_000)
		begin := cpuTime()
		b.StartTimer()
		t.play(x, t.arrivals)
		b.StopTimer()
		cpu += cpuTime() - begin
		chase.run(50_000)
		runtime.ReadMemStats(&m1)
		mallocs += m1.Mallocs - m0.Mallocs
		st = x.Stats()
		if st.Loose != 0 || st.Facts == 0 {
			b.Fatalf("%+v", st)
		}
		x.Close()
		b.StartTimer()
	}
	blocks := float64(t.blocks * b.N)
	b.ReportMetric(blocks/b.Elapsed().Seconds()/1e6, "Mblocks/s")
	b.ReportMetric(float64(cpu)/blocks, "cpu-ns/block")
	b.ReportMetric(float64(cpu)/blocks/chase.ns(), "of-chase")
	b.ReportMetric(float64(mallocs)/float64(len(t.at)*b.N), "allocs/slot")
	b.ReportMetric(float64(st.Bytes)/float64(st.Facts), "B/fact")
}

// BenchmarkApply is the whole event path after decoding: stream, fold, links
// and tree, one core. Fresh memory's page faults are part of it.
func BenchmarkApply(b *testing.B) {
	x, chains := benchB()
	for _, size := range []struct {
		name   string
		blocks int
		chains int
	}{{"B/run256", 256, benchChains}, {"B/interleaved16", 16, benchChains}, {"B/single", 1, benchChains / 4}} {
		b.Run(size.name, func(b *testing.B) {
			playing(b, arrivals{}, interleaved(x.Root, chains[:size.chains], size.blocks))
		})
	}
	b.Run("B/again256", func(b *testing.B) {
		t := interleaved(x.Root, chains, 256)
		blocks := t.blocks
		before := t.split()
		for i, h := range before.at { // the same once more, later in the log
			s := before.slots[i]
			t.seqs[h]++
			s.Seq = t.seqs[h]
			t.at, t.slots = append(t.at, h), append(t.slots, s)
		}
		t.blocks = blocks
		playing(b, before, t)
	})
	b.Run("L/tails16", func(b *testing.B) {
		before, t := trafficL()
		playing(b, before, t)
	})
}

// trafficL is llm-d's workload with a tenth of its tails: before are the
// prefixes, which every holder has; then come tails in events of 16.
func trafficL() (before arrivals, t *traffic) {
	h := radix.NewHasher(benchSecret)
	l := workload.L(h, benchChains/2)
	t = newTraffic()
	tell := func(c *workload.Chain, parent uint64, holder, at, n int) {
		t.add(holder, func(b *crdt.Builder) {
			op := crdt.Op{Main: true, PerPage: 1, Root: uint64(l.Root)}
			switch {
			case at > 0:
				op.HasParent, op.Parent = true, c.Handles[at-1]
			case parent != 0:
				op.HasParent, op.Parent = true, parent
			}
			hashes := make([]uint64, n) // any will do: nothing is asked for by key
			for i := range hashes {
				hashes[i] = c.Handles[at+i]
			}
			b.Store(op, c.Handles[at:at+n], hashes)
		})
		t.blocks += n
	}
	for i := range l.Prefixes {
		for holder := range workload.Holders {
			tell(&l.Prefixes[i], 0, holder, 0, workload.SharedBlocks)
		}
	}
	before = t.split()
	for i := range l.Tails {
		c := &l.Tails[i]
		up := l.Prefixes[c.Prefix].Handles[workload.SharedBlocks-1]
		for _, holder := range c.Holders {
			for at := 0; at < len(c.Keys); at += 16 {
				tell(c, up, holder, at, 16)
			}
		}
	}
	return before, t
}

func BenchmarkRemove(b *testing.B) {
	x, chains := benchB()
	for _, size := range []int{192, 16, 1} {
		n := benchChains
		if size == 1 {
			n /= 4
		}
		b.Run(fmt.Sprintf("B/tails%d", size), func(b *testing.B) {
			t := interleaved(x.Root, chains[:n], 256)
			before := t.split()
			t.removals(chains[:n], 192, size)
			playing(b, before, t)
		})
	}
}

// BenchmarkMatch asks B's mixed queries of an Index to which another goroutine
// applies slots, 1 M blocks/s as far as the machine can: chains of its own are
// stored and removed in turns.
func BenchmarkMatch(b *testing.B) {
	w, chains := benchB()
	b.Run("B/mixed", func(b *testing.B) {
		x := benchIndex()
		defer x.Close()
		t := interleaved(w.Root, chains, 256)
		t.play(x, t.arrivals)
		queries := w.Queries(workload.Mixed, 5000)
		refs := make([]*Ref, workload.Holders)
		for h := range refs {
			refs[h] = x.Ref(t.ids[h])
		}
		var v View
		for i := 0; i < len(queries); i += 50 {
			x.Match(queries[i].Keys, &v)
			for h, want := range w.Depths(queries[i]) {
				if got := v.Depth(refs[h]).GPU; got != want {
					b.Fatalf("query %d holder %d: %d, want %d", i, h, got, want)
				}
			}
		}
		var stop atomic.Bool
		var wrote atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			churn(x, &stop, &wrote)
		}()
		buf := make([]radix.Key, 0, workload.ChainBlocks)
		took := make([]time.Duration, 0, b.N)
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			buf = append(buf[:0], queries[i%len(queries)].Keys...) // just hashed, in production
			start := time.Now()
			x.Match(buf, &v)
			took = append(took, time.Since(start))
		}
		b.StopTimer()
		stop.Store(true)
		<-done
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
		b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		b.ReportMetric(float64(wrote.Load())/b.Elapsed().Seconds()/1e6, "writer-Mblocks/s")
	})
}

// churn stores and removes runs of 16, 62,500 slots a second.
func churn(x *Index, stop *atomic.Bool, wrote *atomic.Int64) {
	start := time.Now()
	for seq := uint64(1); !stop.Load(); seq++ {
		var b crdt.Builder
		handles, hashes := make([]uint64, 16), make([]uint64, 16)
		for i := range handles {
			handles[i] = workload.Mix(seq/2%1000<<8+uint64(i)) | 1
			hashes[i] = handles[i]
		}
		if seq%2 == 0 {
			b.Store(crdt.Op{Main: true, PerPage: 1, Root: 77}, handles, hashes)
		} else {
			b.Remove(crdt.Op{Main: true}, handles)
		}
		s, err := b.Slot(seq, int64(seq))
		if err != nil {
			panic(err)
		}
		x.Apply(&crdt.Delta{Stream: "http://churn#0", Epoch: 1, Anchor: 1, Slots: []crdt.Slot{s}}, 1)
		for n := wrote.Add(16); time.Since(start) < time.Duration(n)*time.Microsecond && !stop.Load(); {
			runtime.Gosched()
		}
	}
}

// BenchmarkMemory holds 10 M facts of single-holder chains and looks at the
// heap and at what a collection costs beside them.
func BenchmarkMemory(b *testing.B) {
	b.Run("10M", func(b *testing.B) {
		for range b.N {
			x := benchIndex()
			const chains = 10_000_000 / workload.ChainBlocks
			hashes, handles := make([]uint64, workload.ChainBlocks), make([]uint64, workload.ChainBlocks)
			seqs := [workload.Holders]uint64{}
			for i := range uint64(chains) {
				for j := range hashes {
					hashes[j] = workload.Mix(i<<16 + uint64(j))
					handles[j] = hashes[j]
				}
				var builder crdt.Builder
				builder.Store(crdt.Op{Main: true, PerPage: 1, Root: 7}, handles, hashes)
				h := i % workload.Holders
				seqs[h]++
				s, err := builder.Slot(seqs[h], 1)
				if err != nil {
					b.Fatal(err)
				}
				id := crdt.StreamID(fmt.Sprintf("http://h%d#0", h))
				x.Apply(&crdt.Delta{Stream: id, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{s}}, 1)
			}
			b.StopTimer()
			runtime.GC()
			begin := time.Now()
			runtime.GC()
			wall := time.Since(begin)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			st := x.Stats()
			if st.Facts != chains*workload.ChainBlocks {
				b.Fatalf("%+v", st)
			}
			b.ReportMetric(float64(st.Bytes)/float64(st.Facts), "B/fact")
			b.ReportMetric(float64(st.Bytes)/1e6, "tree-MB")
			b.ReportMetric(float64(m.HeapInuse)/1e6, "heap-MB")
			b.ReportMetric(float64(wall)/1e6, "gc-ms")
			b.ReportMetric(float64(m.PauseNs[(m.NumGC+255)%256])/1e6, "pause-ms")
			x.Close()
			b.StartTimer()
		}
	})
}
