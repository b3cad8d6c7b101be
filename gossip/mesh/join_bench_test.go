//go:build unix

package mesh

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/index"
)

// BenchmarkColdJoin is the budget "cold join of 10 M facts within 4 s, serving
// meanwhile": two donors that hold the facts of 64 streams, whose rings do not
// reach back, under 20 k blocks/s, and a fresh peer. join-s is from its start
// to its being ready; match-p99-us and match-max-us are matches of 256 blocks
// at one donor meanwhile (rest-p99-us: before), hold-ms the longest that a
// writer waited there for the index. chase-ns is a step of the yardstick before
// and after, join-Msteps join-s in millions of them. At the end contexts and
// sums are equal, and samples match. BANYAN_BENCH_FACTS sets another size, in
// thousands.
func BenchmarkColdJoin(b *testing.B) {
	sizes := []int{1_000, 10_000}
	if n, err := strconv.Atoi(os.Getenv("BANYAN_BENCH_FACTS")); err == nil && n > 0 {
		sizes = []int{n}
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("facts=%dk", n), func(b *testing.B) { coldJoin(b, n*1000) })
	}
}

func coldJoin(b *testing.B, facts int) {
	const donors, streams, blocks, rate = 2, 64, 16, 20_000
	tellers := make([]*teller, streams)
	for i := range tellers {
		tellers[i] = newTeller(i)
	}
	nodes := octet(b, donors, nil, nil)
	tell(b, nodes, tellers, facts, blocks)
	equal(b, nodes)
	steps := takeYardstick()
	f := begin(b, nodes, tellers, rate, blocks)
	rest := probe(nodes[0], tellers)
	time.Sleep(time.Second)
	rest.end()
	for i := 0; b.Loop(); i++ {
		during := probe(nodes[0], tellers)
		cfg := config(fmt.Sprintf("fresh%d", i))
		cfg.Join = []string{nodes[0].Addr(), nodes[1].Addr()}
		fresh := newIndexed(b, cfg, nil)
		cpu, began := processCPU(), time.Now()
		if err := fresh.Start(); err != nil {
			b.Fatal(err)
		}
		select {
		case why := <-fresh.ready:
			if why != "caught up" {
				b.Fatalf("ready, but %s", why)
			}
		case <-time.After(patience):
			b.Fatal("not ready")
		}
		took, spent := time.Since(began), processCPU()-cpu
		during.end()
		f.end()
		all := append([]*indexed{fresh}, nodes...)
		equal(b, all)
		if n := fresh.index.Stats().Facts; n < facts {
			b.Fatalf("%d facts", n)
		}
		matches(b, all, tellers, 200)
		steps.take()
		b.ReportMetric(took.Seconds(), "join-s")
		b.ReportMetric(steps.in(took)/1e6, "join-Msteps")
		b.ReportMetric(spent.Seconds(), "cpu-s")
		b.ReportMetric((fresh.value(b, "banyan_mesh_bytes_total", "in", "snapshot")+fresh.value(b, "banyan_mesh_bytes_total", "in", "slots"))/1e6, "MB")
		b.ReportMetric(rest.quantile(.99), "rest-p99-us")
		b.ReportMetric(during.quantile(.99), "match-p99-us")
		b.ReportMetric(during.quantile(1), "match-max-us")
		b.ReportMetric(float64(during.held.Microseconds())/1000, "hold-ms")
		fresh.end(b)
		f = begin(b, nodes, tellers, rate, blocks)
	}
	f.end()
	steps.report(b)
}

// tell gives all peers the same facts, past the mesh.
func tell(b *testing.B, nodes []*indexed, tellers []*teller, facts, blocks int) {
	b.Helper()
	const run = 32 // slots at a time
	for n := 0; n < facts; {
		for _, t := range tellers {
			slots := make([]crdt.Slot, run)
			for i := range slots {
				slots[i] = t.next(b, blocks)
			}
			n += run * blocks
			for _, p := range nodes {
				p.index.Apply(&crdt.Delta{Stream: t.id, Epoch: 1, Anchor: 1, Slots: slots}, time.Now().UnixMilli())
			}
		}
	}
}

// prober matches at a peer and waits for its writer's lock, again and again.
type prober struct {
	quit chan struct{}
	wg   sync.WaitGroup
	us   []float64     // of the matches
	held time.Duration // longest wait for the writer
}

func probe(p *indexed, tellers []*teller) *prober {
	r := &prober{quit: make(chan struct{})}
	var prompts [64][]radix.Key
	for i := range prompts {
		prompts[i] = tellers[i%len(tellers)].keys(1 + uint64(i))
	}
	again := func(f func()) {
		r.wg.Go(func() {
			for {
				select {
				case <-r.quit:
					return
				case <-time.After(500 * time.Microsecond):
					f()
				}
			}
		})
	}
	var v index.View
	again(func() {
		keys := prompts[rand.IntN(len(prompts))]
		began := time.Now()
		p.index.Match(keys, &v)
		r.us = append(r.us, float64(time.Since(began).Nanoseconds())/1000)
	})
	again(func() {
		began := time.Now()
		p.index.Digest("nobody")
		r.held = max(r.held, time.Since(began))
	})
	return r
}

func (r *prober) end() {
	close(r.quit)
	r.wg.Wait()
	slices.Sort(r.us)
}

func (r *prober) quantile(q float64) float64 {
	return r.us[min(len(r.us)-1, int(float64(len(r.us))*q))]
}
