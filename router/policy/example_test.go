package policy_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/banyan-llm/banyan/router/policy"
)

func Example() {
	p, err := policy.New(policy.Default, policy.DefaultConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	rates := policy.DefaultRates()
	warm := policy.Candidate{ID: 1, GPU: 7_500, Rates: rates, Weight: 1, Running: -1, Queued: -1}
	cold := policy.Candidate{ID: 2, Rates: rates, Weight: 1, Running: -1, Queued: -1}
	view := &policy.View{NowMs: 1_000, Peers: 1, Rand: rand.New(rand.NewPCG(1, 2))}
	req := &policy.Request{Tokens: 8_000}

	d := p.Decide(req, view, []policy.Candidate{cold, warm}, nil)
	fmt.Println(d.Pos, d.Reason, d.Matched)

	// The warm replica has a second of prefill waiting: computing anew is sooner.
	warm.Waiting, warm.Prefill, warm.FirstToken = 2, 1, 1_000
	d = p.Decide(req, view, []policy.Candidate{cold, warm}, nil)
	fmt.Println(d.Pos, d.Reason, d.Matched)
	// Output:
	// 1 prefix 7500
	// 0 spill 0
}
