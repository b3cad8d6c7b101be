package workload

import (
	"math"
	"testing"
)

// TestShrinkKeepsWhatPromptsShare: turns begin with what their sessions said
// before, and as much of the whole can be found again.
func TestShrinkKeepsWhatPromptsShare(t *testing.T) {
	w, err := Generate("coding", Options{Seed: 3, Requests: 400, Replicas: 8})
	if err != nil {
		t.Fatal(err)
	}
	before, tokens, length := w.IdealHit(), 0, w.Requests[len(w.Requests)-1].At
	for i := range w.Requests {
		tokens += w.Requests[i].Tokens
	}
	w.Shrink(10)
	after, left := w.IdealHit(), 0
	for i := range w.Requests {
		r := &w.Requests[i]
		left += r.Tokens
		if r.After < 0 {
			continue
		}
		said := w.Requests[r.After].Prompt
		for k := range min(len(said), len(r.Prompt)) {
			if r.Prompt[k].ID == said[k].ID && r.Prompt[k] != said[k] {
				t.Fatalf("request %d: segment %d is %v, it was %v", i, k, r.Prompt[k], said[k])
			}
		}
	}
	if math.Abs(before-after) > .02 || math.Abs(10*float64(left)/float64(tokens)-1) > .02 {
		t.Errorf("hit ratio %.3f, it was %.3f; %d tokens of %d", after, before, left, tokens)
	}
	if got := w.Requests[len(w.Requests)-1].At; math.Abs(10*got/length-1) > 1e-9 {
		t.Errorf("the last request comes at %v, of %v", got, length)
	}
}
