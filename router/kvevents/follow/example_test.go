package follow_test

import (
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
)

// A tracker names processes by the start times that they tell.
func ExampleTracker() {
	t := follow.New(false)
	var prior follow.Prior
	for i, start := range []uint64{5_000, 9_000, 7_000} {
		t.Step(0, prior, follow.Connected{})
		opened := t.Step(0, prior, follow.Identified{Start: start})
		prior.Epoch = opened.Epoch
		out := t.Step(0, prior, follow.Live{Slot: crdt.Slot{Seq: 4, TS: 1}})
		fmt.Println("process", i, "started", follow.StartOf(out.Epoch), "generation", out.Epoch>>48, "slots", len(out.Deliver))
	}
	// Output:
	// process 0 started 5000 generation 0 slots 1
	// process 1 started 9000 generation 0 slots 1
	// process 2 started 7000 generation 1 slots 1
}
