package pick

import (
	"math/rand/v2"

	"github.com/banyan-llm/banyan/router/policy"
)

// NoFetch marks a replica that neither fetches from others nor is fetched from.
const NoFetch = -1

// Fetchable fills in how many tokens each candidate can fetch: the most that one
// of the others can hand out, and no more than an engine takes from a cache.
// hands[c.Index] is what replica c can hand out, NoFetch if it takes no part.
// The replicas handing out need not be candidates: a full one has time for it.
// O(candidates + hands).
func Fetchable(cands []policy.Candidate, hands []int, most int) {
	first, second := NoFetch, NoFetch // the deepest, and the next one
	for i, h := range hands {
		switch {
		case first < 0 || h > hands[first]:
			first, second = i, first
		case second < 0 || h > hands[second]:
			second = i
		}
	}
	for i := range cands {
		c := &cands[i]
		if hands[c.Index] == NoFetch {
			continue
		}
		from := first
		if c.Index == first {
			from = second
		}
		if from >= 0 {
			c.Fetch = max(0, min(hands[from], most))
		}
	}
}

// Source draws the replica that a winner should fetch from: any of those that
// hold as much of the prompt as the decision counts on, so that a prefix that
// many hold is not always fetched from the same one. -1: it fetches nothing.
func Source(hands []int, winner int, d *policy.Decision, rnd *rand.Rand) int {
	source, n := -1, 0
	if d.FetchTo == 0 {
		return source
	}
	for i, h := range hands {
		if i == winner || h < d.FetchTo {
			continue
		}
		if n++; rnd.IntN(n) == 0 {
			source = i
		}
	}
	return source
}
