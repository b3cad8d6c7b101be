package pick

import (
	"math/rand/v2"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/policy"
)

// NoFetch marks a replica that neither fetches from others nor is fetched from.
const NoFetch = -1

// Fetchable fills in how many tokens each candidate can fetch: the most that one
// of the others can hand out, and no more than an engine takes from a cache; and
// for how long the least busy of those is still handing out. hands[c.Index] is
// what replica c can hand out, NoFetch if it takes no part; busy its seconds.
// The replicas handing out need not be candidates: a full one has time for it.
// O(candidates + hands).
func Fetchable(cands []policy.Candidate, hands []int, busy []float64, most int) {
	first, second := NoFetch, NoFetch // the deepest, and the next one
	better := func(i, than int) bool {
		return than < 0 || hands[i] > hands[than] || hands[i] == hands[than] && busy[i] < busy[than]
	}
	for i := range hands {
		switch {
		case better(i, first):
			first, second = i, first
		case better(i, second):
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
		if from >= 0 && hands[from] > 0 {
			c.Fetch, c.FetchWait = min(hands[from], most), busy[from]
		}
	}
}

// Source is the replica that a winner should fetch from: of those that hold as
// much of the prompt as the decision counts on the one that is least busy handing
// out, any of them where several are. -1: it fetches nothing.
func Source(hands []int, busy []float64, winner int, d *policy.Decision, rnd *rand.Rand) int {
	source, n := -1, 0
	if d.FetchTo == 0 {
		return source
	}
	for i, h := range hands {
		switch {
		case i == winner || h < d.FetchTo || source >= 0 && busy[i] > busy[source]:
			continue
		case source < 0 || busy[i] < busy[source]:
			source, n = i, 1
			continue
		}
		if n++; rnd.IntN(n) == 0 {
			source = i
		}
	}
	return source
}

// HandOut notes that the replica from which a winner fetches is busy for the time
// of it.
func HandOut(loads *load.Table, source crdt.StreamID, d *policy.Decision, winner *policy.Candidate, nowMs int64) {
	if d.Fetched > 0 {
		loads.HandOut(source, d.Moving-winner.FetchWait, nowMs)
	}
}

// Fetch is what a try is told to fetch of its prompt.
type Fetch struct {
	Decided policy.Decision
	Sure    int // tokens that its replica held for certain
}

// FetchOutcome is what came of a fetch; a closed list, used as a metric label.
type FetchOutcome string

const (
	FetchCame     FetchOutcome = "fetched"  // the engine found most of the tokens cached
	FetchComputed FetchOutcome = "computed" // it computed most of them
	FetchUnknown  FetchOutcome = "unknown"  // it does not say, or the try came to nothing
)

// FetchOutcomes are all of them.
var FetchOutcomes = []FetchOutcome{FetchCame, FetchComputed, FetchUnknown}

// Outcome is what an answer says of the fetch: how many tokens of the prompt were
// cached, if it is told.
func (f *Fetch) Outcome(told bool, cached int) FetchOutcome {
	switch {
	case !told:
		return FetchUnknown
	case 2*cached >= f.Sure+f.Decided.FetchTo:
		return FetchCame
	}
	return FetchComputed
}
