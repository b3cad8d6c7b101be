package replica_test

import (
	"fmt"
	"math"

	"github.com/banyan-llm/banyan/simulation/replica"
)

func Example() {
	profile, _ := replica.ProfileByName("q32")
	r, _ := replica.New(replica.Config{Profile: profile})
	keys := []uint64{11, 12, 13, 14} // names of 4 pages of 16 tokens
	_ = r.Submit(0, replica.Request{ID: 1, Prompt: 64, Output: 1, Keys: keys})
	_ = r.Submit(0, replica.Request{ID: 2, Prompt: 70, Output: 1, Keys: keys})
	for !math.IsInf(r.Next(), 1) {
		res, _ := r.Step(r.Next())
		for _, p := range res.Tokens {
			fmt.Printf("%.1f ms: request %d, %d tokens were cached\n", res.End*1e3, p.ID, p.Cached)
		}
	}
	// Output:
	// 17.6 ms: request 1, 0 tokens were cached
	// 32.8 ms: request 2, 64 tokens were cached
}
