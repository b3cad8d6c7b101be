package radix

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkTable fills 64 tables in turns, as 64 holders do.
func BenchmarkTable(b *testing.B) {
	for range b.N {
		mem := &memory{}
		blocks := &blocks{mem: mem}
		tables := make([]table, 64)
		for i := range tables {
			tables[i].blocks = blocks
		}
		rng := rand.New(rand.NewPCG(1, 2))
		const n = 64 * 100_000
		for i := range n {
			tables[i/256%64].insert(spread(rng.Uint32()), uint32(i+1))
		}
		b.ReportMetric(b.Elapsed().Seconds()*1e9/n, "ns/insert")
		b.ReportMetric(float64(blocks.used*8)/n, "B/entry")
		b.ReportMetric(float64(mem.bytes)/n, "mapped-B/entry")
		mem.close()
	}
}
