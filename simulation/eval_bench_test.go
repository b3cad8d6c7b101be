package simulation

import (
	"testing"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// BenchmarkEvaluate is one evaluation of 12,000 requests over 16 replicas and
// 16 peers, prompts of 1,000 to 8,500 tokens in pages of 16.
func BenchmarkEvaluate(b *testing.B) {
	w := generated(b, "zipf", workload.Options{Seed: 1, Requests: 12_000})
	b.ReportAllocs()
	for b.Loop() {
		rep := evaluate(b, Config{
			Workload: w, Replicas: 16, Peers: 16, LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05, Speedup: 1.5, Seed: 1,
		})
		if rep.Completed != 12_000 {
			b.Fatalf("completed %d", rep.Completed)
		}
	}
}
