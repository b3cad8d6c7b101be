package index

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// benchSlots builds slots of one store run each: chains of blocks, runs of n.
func benchSlots(b *testing.B, chains, blocks, run int) []crdt.Slot {
	b.Helper()
	var out []crdt.Slot
	seq := uint64(0)
	for at := 0; at < blocks; at += run {
		for c := range chains {
			var builder crdt.Builder
			op := crdt.Op{Main: true, PerPage: 1, Root: 99}
			if at > 0 {
				op.HasParent, op.Parent = true, benchHandle(c, at-1)
			}
			handles, hashes := make([]uint64, run), make([]uint64, run)
			for i := range run {
				handles[i], hashes[i] = benchHandle(c, at+i), benchHandle(c+1<<20, at+i)
			}
			builder.Store(op, handles, hashes)
			seq++
			slot, err := builder.Slot(seq, int64(seq))
			if err != nil {
				b.Fatal(err)
			}
			out = append(out, slot)
		}
	}
	return out
}

func benchHandle(chain, block int) uint64 {
	return crdt.FactHash(uint64(chain), 1, crdt.Meta(block)) | 1
}

// BenchmarkApply is the whole event path after decoding: stream, fold, links
// and tree, one core.
func BenchmarkApply(b *testing.B) {
	for name, run := range map[string]int{"run256": 256, "interleaved16": 16, "single": 1} {
		b.Run(name, func(b *testing.B) {
			const chains, blocks = 2000, 256
			slots := benchSlots(b, chains, blocks, run)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				x := New(Config{Hasher: radix.NewHasher([]byte("bench secret 012")), RingBytes: 8 << 20})
				for i := range slots {
					x.Apply(&crdt.Delta{Stream: testStream, Epoch: 1, Anchor: 1, Slots: slots[i : i+1]}, 1)
				}
				b.StopTimer()
				if st := x.Stats(); st.Facts != chains*blocks {
					b.Fatalf("%d facts, want %d", st.Facts, chains*blocks)
				}
				b.ReportMetric(float64(x.tree.Stats().Bytes)/float64(chains*blocks), "B/fact")
				x.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(chains*blocks*b.N)/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}
