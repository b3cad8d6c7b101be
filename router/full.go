package router

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/report"
)

// factsPerToken is how many facts an engine may have for each token of its KV
// cache on the GPU: pages are a token or more, and what lies on lower tiers as
// well is several times as much.
const factsPerToken = 8

// fewestFacts is what every engine may have, however little it told.
const fewestFacts = 1 << 18

// ceilings bounds what one stream may take of the tree.
type ceilings struct {
	rules   *inForce
	loads   *load.Table
	index   *index.Index
	fleet   *fleet.Fleet
	log     hclog.Logger
	givenUp map[index.Bound]uint64 // as last logged; of keepHouse's goroutine
}

// factsLimit is how many facts a stream may have: by what its engine told of its
// cache, never more than limits.stream_facts.
func (c *ceilings) factsLimit(id crdt.StreamID) int {
	most := c.rules.config().Limits.StreamFacts
	if told := c.loads.CacheTokens(id); told > 0 && told < math.MaxInt64/factsPerToken {
		most = min(most, max(fewestFacts, int(told)*factsPerToken))
	}
	return most
}

// tellFull logs what was given up since the last look.
func (c *ceilings) tellFull() {
	st := c.index.Stats()
	if maps.Equal(st.GivenUp, c.givenUp) {
		return
	}
	c.givenUp = st.GivenUp
	for _, r := range slices.SortedFunc(slices.Values(c.fleet.List()), func(a, b *fleet.Replica) int { return strings.Compare(a.Name(), b.Name()) }) {
		if f, ok := c.index.Full(r.Stream); ok {
			c.log.Warn("stream given up", "replica", r.Name(), "why", report.Unusable(&f))
		}
	}
}
