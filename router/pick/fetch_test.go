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
		busy := make([]float64, len(hands))
		for i := range busy {
			busy[i] = float64(rapid.IntRange(0, 2).Draw(t, "busy"))
		}
		most := rapid.IntRange(0, 60).Draw(t, "most")
		var cands []policy.Candidate
		for i := range hands {
			if rapid.Bool().Draw(t, "candidate") {
				cands = append(cands, policy.Candidate{Index: i})
			}
		}
		Fetchable(cands, hands, busy, most)
		for _, c := range cands {
			deepest, want, wait := 0, 0, 0.0
			for i, h := range hands {
				if i == c.Index || hands[c.Index] == NoFetch {
					continue
				}
				if h > deepest || h > 0 && h == deepest && busy[i] < wait {
					deepest, wait, want = h, busy[i], min(h, most)
				}
			}
			if c.Fetch != want || c.FetchWait != wait {
				t.Fatalf("candidate %d of %v (busy %v) can fetch %d of at most %d after %v s, want %d after %v s", c.Index, hands, busy, c.Fetch, most, c.FetchWait, want, wait)
			}
		}
	})
}

// Whoever holds as much as the decision counts on may be the source: the least
// busy one, each now and then where they are alike; nobody else ever is.
func TestSourcesAreDrawnAmongThoseThatHoldEnough(t *testing.T) {
	hands := []int{90, NoFetch, 100, 40, 90, 100}
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func(busy ...float64) map[int]int {
		seen := map[int]int{}
		for range 1000 {
			seen[Source(hands, busy, 5, &policy.Decision{FetchTo: 90}, rnd)]++
		}
		return seen
	}
	if seen := draw(0, 0, 0, 0, 0, 0); len(seen) != 3 || seen[0] < 200 || seen[2] < 200 || seen[4] < 200 {
		t.Errorf("sources %v, want replicas 0, 2 and 4 alike", seen)
	}
	if seen := draw(2, 0, 1, 0, 1, 0); len(seen) != 2 || seen[2] < 300 || seen[4] < 300 {
		t.Errorf("sources %v, want replicas 2 and 4, which are less busy", seen)
	}
	idle := make([]float64, 6)
	if at := Source(hands, idle, 5, &policy.Decision{}, rnd); at != -1 {
		t.Errorf("source %d for a decision that fetches nothing", at)
	}
	if at := Source(hands, idle, 5, &policy.Decision{FetchTo: 101}, rnd); at != -1 {
		t.Errorf("source %d, and nobody holds so much", at)
	}
}

// A fetch came if the engine found most of what it was told to fetch, and more
// than it held before.
func TestAFetchIsJudgedByWhatTheEngineFound(t *testing.T) {
	f := Fetch{Decided: policy.Decision{FetchTo: 1000}, Sure: 200}
	for _, c := range []struct {
		told   bool
		cached int
		want   FetchOutcome
	}{{true, 1000, FetchCame}, {true, 600, FetchCame}, {true, 599, FetchComputed}, {true, 0, FetchComputed}, {false, 1000, FetchUnknown}} {
		if got := f.Outcome(c.told, c.cached); got != c.want {
			t.Errorf("told %v, %d cached: %s, want %s", c.told, c.cached, got, c.want)
		}
	}
}
