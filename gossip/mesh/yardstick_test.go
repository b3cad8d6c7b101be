package mesh

import (
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/radix/workload"
)

var loadChase = sync.OnceValue(workload.NewChase)

// yardstick is the time of a dependent cache miss, taken before and after what
// is measured, while the peers rest.
type yardstick []time.Duration

// takeYardstick takes it for the first time.
func takeYardstick() *yardstick {
	y := &yardstick{}
	y.take()
	return y
}

// take takes it once more, some 50 ms.
func (y *yardstick) take() { *y = append(*y, loadChase().Step(200)) }

func (y *yardstick) mean() time.Duration {
	sum := time.Duration(0)
	for _, t := range *y {
		sum += t
	}
	return sum / time.Duration(len(*y))
}

// in is how many steps fit into a time.
func (y *yardstick) in(took time.Duration) float64 { return float64(took) / float64(y.mean()) }

func (y *yardstick) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(y.mean().Nanoseconds()), "chase-ns")
}
