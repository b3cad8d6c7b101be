package load

import (
	"math"
	"testing"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// TestTheFirstRequestLeavesAtOnce: what a workload or a trace leaves out before
// its first request is nobody's load.
func TestTheFirstRequestLeavesAtOnce(t *testing.T) {
	for _, steady := range []bool{false, true} {
		for _, rate := range []float64{0, 3} {
			w, err := workload.Generate("coding", workload.Options{Seed: 1, Requests: 250})
			if err != nil {
				t.Fatal(err)
			}
			d := newDriver(Config{Workload: w, Rate: rate, Steady: steady, Seed: 1})
			first := math.Inf(1)
			for _, due := range d.due {
				first = min(first, due.at)
			}
			if first != 0 {
				t.Errorf("steady %v, rate %v: the first of %d leaves after %.1f s", steady, rate, len(d.due), first)
			}
		}
	}
}
