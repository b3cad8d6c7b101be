package radix_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/radix/workload"
)

// Timings on a shared machine are noisy: compare ratios inside one run. Every
// benchmark checks a sample of its answers.

var hasher = radix.NewHasher([]byte("bench"))

const queries = 20_000

func stored(seq uint64) radix.Update {
	return func(radix.Fact) radix.Meta { return radix.Meta(seq<<24 | 1) }
}

func gone(radix.Fact) radix.Meta { return 0 }

func newTree(holders int) *radix.Tree {
	t := radix.NewTree()
	for range holders {
		t.AddHolder()
	}
	return t
}

// storeChains stores whole chains, one event per chain and holder.
func storeChains(t *radix.Tree, root radix.Key, chains []workload.Chain) (blocks int) {
	for i, c := range chains {
		for _, h := range c.Holders {
			t.Store(radix.Holder(h), root, 1, c.Keys, c.Handles, stored(uint64(i)))
			blocks += len(c.Keys)
		}
	}
	return blocks
}

var loadB = sync.OnceValues(func() (*workload.Index, *radix.Tree) { return load(workload.B) })

var loadB1 = sync.OnceValues(func() (*workload.Index, *radix.Tree) { return load(workload.B1) })

func load(make func(*radix.Hasher, int) *workload.Index) (*workload.Index, *radix.Tree) {
	x := make(hasher, workload.FullChains)
	t := newTree(workload.Holders)
	storeChains(t, x.Root, x.Chains)
	return x, t
}

// asker times queries of which the keys have just been computed: each is
// copied to the same buffer first.
type asker struct {
	reader *radix.Reader
	match  radix.Match
	keys   []radix.Key
	took   []int32 // ns
}

func (a *asker) ask(q *workload.Query) {
	a.keys = append(a.keys[:0], q.Keys...)
	start := time.Now()
	a.reader.Match(a.keys, &a.match)
	a.took = append(a.took, int32(min(time.Since(start), time.Second)))
}

func report(b *testing.B, took []int32, chase *chaser) {
	slices.Sort(took)
	sum := 0.0
	for _, t := range took {
		sum += float64(t)
	}
	mean := sum / float64(len(took))
	b.ReportMetric(mean, "mean-ns")
	b.ReportMetric(mean/chase.ns(), "of-chase")
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
}

// quiet is how many chains the background writer leaves alone.
const quiet = workload.FullChains * 9 / 10

// write removes and stores again the tails of the last chains, about rate
// blocks a second (0: as fast as it can), until stop.
func write(t *radix.Tree, x *workload.Index, rate int, stop *atomic.Bool) (blocks int) {
	start := time.Now()
	for i := 0; !stop.Load(); i++ {
		c := x.Chains[quiet+i%(len(x.Chains)-quiet)]
		at := workload.SharedBlocks
		for _, h := range c.Holders {
			t.Remove(radix.Holder(h), c.Handles[at:], gone)
			t.Store(radix.Holder(h), c.Keys[at-1], 1, c.Keys[at:], c.Handles[at:], stored(uint64(i)))
			blocks += 2 * (len(c.Keys) - at)
		}
		for rate > 0 && !stop.Load() && time.Since(start) < time.Duration(float64(blocks)/float64(rate)*1e9) {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return blocks
}

func BenchmarkMatch(b *testing.B) {
	for _, kind := range []workload.Kind{workload.Mixed, workload.Full, workload.Prefix, workload.Miss} {
		b.Run("B/"+string(kind), func(b *testing.B) { benchMatch(b, loadB, kind, 1, -1) })
	}
	b.Run("B/mixed-writer-1M", func(b *testing.B) { benchMatch(b, loadB, workload.Mixed, 1, 1_000_000) })
	b.Run("B/mixed-writer-max", func(b *testing.B) { benchMatch(b, loadB, workload.Mixed, 1, 0) })
	b.Run("B/mixed-2-readers", func(b *testing.B) { benchMatch(b, loadB, workload.Mixed, 2, -1) })
	b.Run("B/mixed-2-readers-writer-1M", func(b *testing.B) { benchMatch(b, loadB, workload.Mixed, 2, 1_000_000) })
	b.Run("B1/mixed", func(b *testing.B) { benchMatch(b, loadB1, workload.Mixed, 1, -1) })
	b.Run("L/mixed", benchMatchL)
	b.Run("S/full", benchMatchS)
}

// benchMatch asks with readers goroutines while a writer works at rate (-1:
// none).
func benchMatch(b *testing.B, load func() (*workload.Index, *radix.Tree), kind workload.Kind, readers, rate int) {
	x, tree := load()
	qs := x.Queries(kind, queries)
	checkSample(b, x, tree, qs)
	askers := make([]*asker, readers)
	for i := range askers {
		askers[i] = &asker{reader: tree.NewReader(), took: make([]int32, 0, b.N)}
		for q := range 200 {
			askers[i].ask(&qs[q])
		}
		askers[i].took = askers[i].took[:0]
	}
	var chase chaser
	chase.run(50_000)
	var stop atomic.Bool
	var writer sync.WaitGroup
	written := 0
	if rate >= 0 {
		writer.Go(func() { written = write(tree, x, rate, &stop) })
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for r, a := range askers {
		wg.Go(func() {
			for i := range b.N {
				a.ask(&qs[(i+r*queries/2)%queries])
			}
		})
	}
	wg.Wait()
	elapsed := b.Elapsed()
	b.StopTimer()
	stop.Store(true)
	writer.Wait()
	chase.run(50_000)
	var took []int32
	for _, a := range askers {
		took = append(took, a.took...)
	}
	report(b, took, &chase)
	b.ReportMetric(float64(b.N*readers)/elapsed.Seconds()/1e6, "Mmatch/s")
	if rate >= 0 {
		b.ReportMetric(float64(written)/elapsed.Seconds()/1e6, "writer-Mblocks/s")
	}
	checkSample(b, x, tree, qs)
}

// checkSample compares matches with the truth of the workload.
func checkSample(b *testing.B, x *workload.Index, tree *radix.Tree, qs []workload.Query) {
	b.Helper()
	reader := tree.NewReader()
	var m radix.Match
	for i := 0; i < len(qs); i += len(qs) / 50 {
		reader.Match(qs[i].Keys, &m)
		for h, want := range x.Depths(qs[i]) {
			if got := m.Depth(radix.ClassGPU, radix.Holder(h)); got != want {
				b.Fatalf("query %d, holder %d: depth %d, want %d", i, h, got, want)
			}
		}
	}
}

var loadL = sync.OnceValues(func() (*workload.LIndex, *radix.Tree) {
	x := workload.L(hasher, workload.FullChains)
	t := newTree(workload.Holders)
	storeL1(t, x)
	storeL2(t, x)
	return x, t
})

func storeL1(t *radix.Tree, x *workload.LIndex) (blocks int) {
	for h := range workload.Holders {
		for _, p := range x.Prefixes {
			t.Store(radix.Holder(h), x.Root, 1, p.Keys, p.Handles, stored(uint64(h)))
			blocks += len(p.Keys)
		}
	}
	return blocks
}

func storeL2(t *radix.Tree, x *workload.LIndex) (blocks int) {
	for i, c := range x.Tails {
		prefix := x.Prefixes[c.Prefix].Keys
		for _, h := range c.Holders {
			t.Store(radix.Holder(h), prefix[len(prefix)-1], 1, c.Keys, c.Handles, stored(uint64(i)))
			blocks += len(c.Keys)
		}
	}
	return blocks
}

// benchMatchL also counts what a match reports: everybody, and the full depth
// of everybody who has it.
func benchMatchL(b *testing.B) {
	x, tree := loadL()
	qs := x.Queries(hasher, queries)
	a := &asker{reader: tree.NewReader(), took: make([]int32, 0, b.N)}
	for i := range qs {
		a.ask(&qs[i])
		if qs[i].Known > 0 && len(a.match.Holders()) != workload.Holders {
			b.Fatalf("request %d: %d holders of %d", i, len(a.match.Holders()), workload.Holders)
		}
		for _, h := range x.Tails[qs[i].Chain].Holders {
			if got := a.match.Depth(radix.ClassGPU, radix.Holder(h)); got != qs[i].Known {
				b.Fatalf("request %d holder %d: depth %d, want %d", i, h, got, qs[i].Known)
			}
		}
	}
	a.took = a.took[:0]
	var chase chaser
	chase.run(50_000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		a.ask(&qs[i%queries])
	}
	b.StopTimer()
	chase.run(50_000)
	report(b, a.took, &chase)
	st := tree.Stats()
	b.ReportMetric(float64(st.Bytes)/float64(st.Keys), "B/key")
	b.ReportMetric(float64(st.Bytes)/float64(st.Facts), "B/fact")
}

// benchMatchS hashes the text too: that is what string routers compare with.
func benchMatchS(b *testing.B) {
	tree := newTree(workload.TextHolders)
	defer tree.Close()
	prompts := make([][]byte, workload.TextPrompts)
	for i := range prompts {
		prompts[i] = workload.Prompt(i)
		keys := workload.TextKeys(nil, hasher, prompts[i])
		handles := make([]uint64, len(keys))
		for j, k := range keys {
			handles[j] = uint64(k)
		}
		tree.Store(radix.Holder(i%workload.TextHolders), 0, 1, keys, handles, stored(0))
	}
	reader := tree.NewReader()
	var m radix.Match
	var keys []radix.Key
	for i := 0; b.Loop(); i++ {
		p := i % len(prompts)
		keys = workload.TextKeys(keys[:0], hasher, prompts[p])
		reader.Match(keys, &m)
		if m.Depth(radix.ClassGPU, radix.Holder(p%workload.TextHolders)) != len(keys) {
			b.Fatal("the prompt's holder is not found")
		}
	}
	st := tree.Stats()
	b.ReportMetric(float64(st.Bytes)/float64(st.Facts), "B/fact")
}

func BenchmarkHash(b *testing.B) {
	for _, n := range []int{1024, 4096} {
		tokens := workload.Tokens(nil, 0, 1, n)
		b.Run(map[int]string{1024: "1024", 4096: "4096"}[n], func(b *testing.B) {
			keys := make([]radix.Key, 0, n/16)
			for b.Loop() {
				keys = hasher.AppendKeys(keys[:0], 1, 16, tokens)
			}
			runtime.KeepAlive(keys)
		})
	}
	b.Run("both4096", func(b *testing.B) {
		tokens := workload.Tokens(nil, 0, 1, 4096)
		keys, hashes := make([]radix.Key, 0, 256), make([]radix.TokenHash, 0, 256)
		for b.Loop() {
			hashes, keys = hasher.AppendBlocks(hashes[:0], keys[:0], 1, 16, tokens)
		}
		runtime.KeepAlive(keys)
	})
	b.Run("text512", func(b *testing.B) {
		chunk := workload.Prompt(0)[:workload.TextChunk]
		b.SetBytes(workload.TextChunk)
		for b.Loop() {
			hasher.Bytes(chunk)
		}
	})
}
