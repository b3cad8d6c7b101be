package pick

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/router/policy"
)

// A candidate can fetch what the deepest of the others holds, never its own, and
// only who takes part does.
func TestFetchableIsTheMostThatAnotherOneHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hands := rapid.SliceOfN(rapid.IntRange(NoFetch, 50), 1, 12).Draw(t, "hands")
		most := rapid.IntRange(0, 60).Draw(t, "most")
		var cands []policy.Candidate
		for i := range hands {
			if rapid.Bool().Draw(t, "candidate") {
				cands = append(cands, policy.Candidate{Index: i})
			}
		}
		Fetchable(cands, hands, most)
		for _, c := range cands {
			want := 0
			for i, h := range hands {
				if i != c.Index && hands[c.Index] != NoFetch {
					want = max(want, min(h, most))
				}
			}
			if c.Fetch != want {
				t.Fatalf("candidate %d of %v can fetch %d of at most %d, want %d", c.Index, hands, c.Fetch, most, want)
			}
		}
	})
}

// Whoever holds as much as the decision counts on may be the source, each now
// and then; nobody else ever is.
func TestSourcesAreDrawnAmongThoseThatHoldEnough(t *testing.T) {
	hands := []int{90, NoFetch, 100, 40, 90, 100}
	rnd := rand.New(rand.NewPCG(1, 2))
	seen := map[int]int{}
	for range 1000 {
		seen[Source(hands, 5, &policy.Decision{FetchTo: 90}, rnd)]++
	}
	if len(seen) != 3 || seen[0] < 200 || seen[2] < 200 || seen[4] < 200 {
		t.Errorf("sources %v, want replicas 0, 2 and 4 alike", seen)
	}
	if at := Source(hands, 5, &policy.Decision{}, rnd); at != -1 {
		t.Errorf("source %d for a decision that fetches nothing", at)
	}
	if at := Source(hands, 5, &policy.Decision{FetchTo: 101}, rnd); at != -1 {
		t.Errorf("source %d, and nobody holds so much", at)
	}
}
