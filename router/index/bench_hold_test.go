package index

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix/workload"
)

// BenchmarkHold does what takes long and reports the longest and the median
// hold of the writer's lock, in processor time, lest neighbours count; whole is
// without steps.
func BenchmarkHold(b *testing.B) {
	for _, c := range []struct {
		name string
		run  func(b *testing.B, hold int, took *[]time.Duration)
	}{
		{"slot4096", func(b *testing.B, hold int, took *[]time.Duration) { holdSlot(b, 4096, hold, took) }},
		{"slot524000", func(b *testing.B, hold int, took *[]time.Duration) { holdSlot(b, 524_000, hold, took) }},
		{"overlay1250x16", func(b *testing.B, hold int, took *[]time.Duration) { holdOverlay(b, 1250, 16, hold, took) }},
		{"overlay20000x1", func(b *testing.B, hold int, took *[]time.Duration) { holdOverlay(b, 20_000, 1, hold, took) }},
	} {
		for _, hold := range []int{foldFacts, math.MaxInt32} {
			name := c.name + "/steps"
			if hold > foldFacts {
				name = c.name + "/whole"
			}
			b.Run(name, func(b *testing.B) {
				var longest, median time.Duration
				for range b.N {
					var took []time.Duration
					c.run(b, hold, &took)
					slices.Sort(took)
					longest += took[len(took)-1]
					median += took[len(took)/2]
				}
				b.ReportMetric(float64(longest)/float64(b.N)/1e6, "longest-cpu-ms")
				b.ReportMetric(float64(median)/float64(b.N)/1e6, "median-cpu-ms")
			})
		}
	}
}

// holds applies slots and takes the time of each hold.
func holds(b *testing.B, x *Index, slots []crdt.Slot, took *[]time.Duration) {
	b.Helper()
	timed := func(f func()) {
		x.locked(func() {
			begin := cpuTime()
			f()
			*took = append(*took, cpuTime()-begin)
		})
	}
	b.StartTimer()
	var s *crdt.Stream
	timed(func() {
		s = x.streamLocked(testStream)
		if out := s.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: slots}, 1); out.NewSlots != len(slots) {
			b.Fatalf("%+v", out)
		}
	})
	for more := true; more; {
		timed(func() {
			if more = blocksOf(s).unfinished(s); more {
				x.step(s, blocksOf(s))
			}
		})
	}
	b.StopTimer()
}

func holdIndex(hold int) *Index {
	x := benchIndex()
	x.hold = hold
	return x
}

func holdSlot(b *testing.B, blocks, hold int, took *[]time.Duration) {
	b.StopTimer()
	x := holdIndex(hold)
	defer x.Close()
	holds(b, x, []crdt.Slot{runSlot(b, 1, 0, blocks)}, took)
	if n := x.Stats().Facts; n != blocks {
		b.Fatalf("%d facts", n)
	}
}

func holdOverlay(b *testing.B, slots, each, hold int, took *[]time.Duration) {
	b.StopTimer()
	x := holdIndex(hold)
	defer x.Close()
	for i := range slots {
		x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{runSlot(b, i+3, i*each, each)}}, 1)
	}
	holds(b, x, []crdt.Slot{runSlot(b, 2, slots*each, each)}, took) // slot 1 stays missing
	if n := x.Stats().Facts; n != (slots+1)*each {
		b.Fatalf("%d facts", n)
	}
}

// runSlot stores a run below a root of its own.
func runSlot(tb testing.TB, seq, from, blocks int) crdt.Slot {
	tb.Helper()
	words := make([]uint64, blocks)
	for i := range words {
		words[i] = workload.Mix(uint64(from+i)) | 1
	}
	var build crdt.Builder
	build.Store(crdt.Op{Main: true, PerPage: 1, Root: uint64(testRoot)}, words, words)
	s, err := build.Slot(uint64(seq), int64(seq))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
