package crdt_test

import (
	"fmt"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// BenchmarkPredictionSums is what a digest round pays for predictions: linear in
// the replicas that somebody predicts for.
func BenchmarkPredictionSums(b *testing.B) {
	for _, n := range []int{512, 2048, 8192} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := crdt.NewPredictions(crdt.PredictionsConfig{})
			const now = 1_700_000_000_000
			for i := range n {
				space := crdt.PredictionSpace{Replica: crdt.NewStreamID(fmt.Sprintf("http://replica-%d.example:8000", i), 0), Root: 7}
				for t := range int64(8) {
					p.Join([]crdt.Prediction{{Space: space, Time: now - t*crdt.PredictionBucketMs, TTL: 600_000, Keys: []uint64{uint64(i)<<8 | uint64(t) + 1}}}, now)
				}
			}
			b.ResetTimer()
			for range b.N {
				if len(p.Sums(now)) != 8*n {
					b.Fatal("sums")
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*n), "ns/replica")
		})
	}
}
