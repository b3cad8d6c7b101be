package simulation

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/simulation/workload"
)

func TestRoutersThatOnlyScrapeDoNotKnowWhatTheySent(t *testing.T) {
	w := generated(t, "burst", workload.Options{Seed: 1, Requests: 80})
	spread := func(scraped bool) int {
		rep := evaluate(t, Config{Workload: w, Policy: "least_loaded", Prefill: true, Scrape: 1000, ScrapedOnly: scraped, Seed: 1})
		return slices.Max(rep.PerReplica) - slices.Min(rep.PerReplica)
	}
	if known, blind := spread(false), spread(true); known != 0 || blind < 3 {
		t.Errorf("most minus fewest requests a replica: %d counting what was sent, %d by metrics read once", known, blind)
	}
}

func TestRoutedForgetsHeadsFirstAndCountsPagesLikeItsModel(t *testing.T) {
	r := newRouted(1, 3, 4)
	r.send(0, 0, []uint64{1, 2, 3})
	r.send(0, 1, []uint64{1, 2})
	r.send(0, 2, []uint64{7, 8, 9, 10})
	r.send(0, 0, []uint64{4, 5}) // no room for 1 at replica 0
	for _, c := range []struct{ keys, want []int }{
		{[]int{1, 2, 3}, []int{2, 2, 0}}, // 0 has 2 and 3, and 1 is known of another
		{[]int{3}, []int{1, 0, 0}},
		{[]int{6, 3}, []int{0, 0, 0}}, // nobody has the first
		{[]int{7, 8, 9, 10, 11}, []int{0, 0, 4}},
	} {
		keys := make([]uint64, 0, len(c.keys))
		for _, k := range c.keys {
			keys = append(keys, uint64(k))
		}
		got := make([]int, 3)
		if r.match(0, keys, got); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v pages, want %v", c.keys, got, c.want)
		}
	}
	var none *routed
	got := []int{5}
	none.send(0, 0, []uint64{1})
	if none.match(0, []uint64{1}, got); got[0] != 5 {
		t.Errorf("remembering nothing changed what is expected to %d", got[0])
	}
}
