package policy

import (
	"math"
	"testing"
)

func TestRoundRobinTakesTurns(t *testing.T) {
	p := mustNew(t, "round_robin", nil)
	cands := idle(3)
	for i := range 9 {
		if d := decide(t, p, &Request{Tokens: 1}, quiet(1), cands); d.Pos != i%3 {
			t.Fatalf("turn %d went to %d", i, d.Pos)
		}
	}
	cands[1].Weight = 0.1
	count := [3]int{}
	v := quiet(1)
	for range 3000 {
		count[p.Decide(&Request{Tokens: 1}, v, cands, nil).Pos]++
	}
	if count[1] < 50 || count[1] > 350 || count[0] < 1000 || count[2] < 1000 {
		t.Errorf("weights 1, 0.1, 1 were served %v", count)
	}
}

func TestRandomFollowsWeights(t *testing.T) {
	p := mustNew(t, "random", nil)
	cands := idle(2)
	cands[1].Weight = 3
	v, count := quiet(2), [2]int{}
	for range 4000 {
		count[p.Decide(&Request{Tokens: 1}, v, cands, nil).Pos]++
	}
	if count[1] < 2850 || count[1] > 3150 {
		t.Errorf("weights 1 and 3 were served %v", count)
	}
}

func TestLeastLoadedBelievesTheBusierOfTwoSources(t *testing.T) {
	cands := idle(3)
	cands[0].Waiting, cands[0].Streams = 1, 2
	cands[1].Running, cands[1].Queued = 3, 1
	cands[2].Streams = 2
	if d := decide(t, mustNew(t, "least_loaded", nil), &Request{Tokens: 1}, quiet(1), cands); d.Pos != 2 {
		t.Errorf("picked %d", d.Pos)
	}
}

func TestPowerOfTwoNeverTakesTheWorst(t *testing.T) {
	p := mustNew(t, "power_of_two", nil)
	cands := idle(4)
	cands[3].Streams = 9
	v := quiet(1)
	seen := map[int]bool{}
	for range 500 {
		d := p.Decide(&Request{Tokens: 1}, v, cands, nil)
		if d.Pos == 3 {
			t.Fatal("the most loaded of any two was taken")
		}
		seen[d.Pos] = true
	}
	if len(seen) != 3 {
		t.Errorf("reached %v", seen)
	}
}

func TestConsistentHashKeepsSessionsAndBoundsLoad(t *testing.T) {
	p := mustNew(t, "consistent_hash", nil)
	cands := idle(8)
	home := map[uint64]int{}
	for s := range uint64(400) {
		d := decide(t, p, &Request{Tokens: 9, Session: s + 1, Key: s}, quiet(s), cands)
		home[s] = d.Pos
		if d.Reason != ReasonSession {
			t.Fatalf("reason %s", d.Reason)
		}
	}
	moved := 0
	for s := range uint64(400) {
		d := decide(t, p, &Request{Tokens: 9, Session: s + 1, Key: 77}, quiet(1), cands[:7])
		if home[s] != 7 && d.Pos != home[s] {
			moved++
		}
	}
	if moved != 0 {
		t.Errorf("%d sessions moved although their replica stayed", moved)
	}
	for i := range cands {
		cands[i].Streams = 4
	}
	cands[home[0]].Streams = 20
	d := decide(t, p, &Request{Tokens: 9, Session: 1}, quiet(1), cands)
	if d.Pos == home[0] || d.Reason != ReasonSpill {
		t.Errorf("%+v: an overloaded replica kept its session", d)
	}
	prefix := &Request{Tokens: 9, Prefix: 5, Key: 1}
	other := &Request{Tokens: 9, Prefix: 5, Key: 2}
	idleCands := idle(8)
	if decide(t, p, prefix, quiet(1), idleCands).Pos != decide(t, p, other, quiet(2), idleCands).Pos {
		t.Error("two prompts with one head part")
	}
}

func TestCacheAwareThresholds(t *testing.T) {
	fleet := mustNew(t, "cache_aware", nil)
	gate := mustNew(t, "cache_aware", func(c *Config) { c.CacheAware.Gate = GateCandidate })
	req := &Request{Tokens: 1000}
	make4 := func() []Candidate {
		cands := idle(4)
		cands[1].GPU, cands[1].Streams = 900, 3
		cands[2].GPU, cands[2].Streams = 500, 2
		return cands
	}
	check := func(name string, p Policy, change func([]Candidate), pos int, reason Reason) {
		t.Helper()
		cands := make4()
		change(cands)
		if d := decide(t, p, req, quiet(1), cands); d.Pos != pos || d.Reason != reason {
			t.Errorf("%s: took %d for %s, want %d for %s", name, d.Pos, d.Reason, pos, reason)
		}
	}
	check("a match over .3 wins", fleet, func([]Candidate) {}, 1, ReasonPrefix)
	check("a match of exactly .3 does not", fleet, func(c []Candidate) {
		c[1].GPU, c[2].GPU, c[0].Streams = 300, 0, 1
	}, 3, ReasonLoad)
	check("64 more than the least is still balanced", fleet, func(c []Candidate) { c[1].Streams = 64 }, 1, ReasonPrefix)
	check("65 more is not", fleet, func(c []Candidate) { c[1].Streams, c[0].Streams = 65, 1; c[3].Streams = 0 }, 3, ReasonSpill)
	check("not unless it is 1.5 times", fleet, func(c []Candidate) {
		for i := range c {
			c[i].Streams = 200
		}
		c[1].Streams = 290
	}, 1, ReasonPrefix)
	check("one hot replica switches the whole fleet", fleet, func(c []Candidate) { c[3].Streams, c[2].Streams = 90, 1 }, 0, ReasonSpill)
	check("but not with a gate per candidate", gate, func(c []Candidate) { c[3].Streams = 90 }, 1, ReasonPrefix)
	check("an overloaded holder is passed over for the next", gate, func(c []Candidate) { c[1].Streams = 90 }, 2, ReasonPrefix)
}

func TestPrefixFollowsTheLongestMatchIntoTheGround(t *testing.T) {
	cands := idle(3)
	cands[2].GPU, cands[2].Waiting, cands[2].Prefill = 16, 5000, 9000
	if d := decide(t, mustNew(t, "prefix", nil), &Request{Tokens: 1000}, quiet(1), cands); d.Pos != 2 {
		t.Errorf("picked %d", d.Pos)
	}
}

func TestCostIsDynamosLogit(t *testing.T) {
	cands := idle(3)
	for i, blocks := range []int64{10, 5, 9} { // Dynamo's documented example
		cands[i].Blocks = blocks
	}
	cands[0].GPU, cands[1].GPU, cands[2].GPU = 32, 80, 127
	scores := make([]float64, 3)
	req := &Request{Tokens: 128}
	d := mustNew(t, "cost", nil).Decide(req, quiet(1), cands, scores)
	// own blocks (8) are added to decode blocks everywhere
	for i, want := range []float64{6 + 10 + 8, 3 + 5 + 8, 1.0/16 + 9 + 8} {
		if math.Abs(scores[i]-want) > 1e-9 {
			t.Errorf("cost of %d is %v, want %v", i, scores[i], want)
		}
	}
	if d.Pos != 1 {
		t.Errorf("picked %d", d.Pos)
	}
	cands[0].CPU, cands[0].Disk = 64, 128
	mustNew(t, "cost", nil).Decide(req, quiet(1), cands, scores)
	if want := (128-(32+0.75*32+0.25*64))/16 + 18; math.Abs(scores[0]-want) > 1e-9 {
		t.Errorf("with slower tiers the cost is %v, want %v", scores[0], want)
	}
}

func TestCostTemperatureSpreadsChoices(t *testing.T) {
	p := mustNew(t, "cost", func(c *Config) { c.Cost.Temperature = 0.5 })
	cands := idle(2)
	cands[1].Blocks = 10
	v, count := quiet(1), [2]int{}
	for range 4000 {
		count[p.Decide(&Request{Tokens: 160}, v, cands, nil).Pos]++
	}
	want := 1 / (1 + math.Exp(-1/0.5)) // normalised costs 0 and 1
	if got := float64(count[0]) / 4000; math.Abs(got-want) > 0.03 {
		t.Errorf("the cheaper one was taken %.3f of the time, want %.3f", got, want)
	}
}

func TestWeightedSumsScorers(t *testing.T) {
	cands := idle(2)
	cands[0].GPU, cands[0].Waiting, cands[0].KVUse = 500, 4, 0.5
	cands[1].GPU, cands[1].Waiting, cands[1].KVUse = 0, 0, 0.1
	scores := make([]float64, 2)
	mustNew(t, "weighted", nil).Decide(&Request{Tokens: 1000}, quiet(1), cands, scores)
	for i, want := range []float64{-(3*0.5 + 2*0 + 2*0.5), -(3*0 + 2*1 + 2*0.9)} {
		if math.Abs(scores[i]-want) > 1e-9 {
			t.Errorf("score %d is %v, want %v", i, scores[i], want)
		}
	}
}

func TestWeightedScoresRequestsInFlightByTheMost(t *testing.T) {
	scores := make([]float64, 3)
	run := func(streams ...int) []float64 {
		cands := idle(3)
		for i := range cands {
			cands[i].Streams = streams[i]
		}
		mustNew(t, "weighted", func(c *Config) { c.Weighted = WeightedConfig{Active: 2} }).Decide(&Request{Tokens: 1000}, quiet(1), cands, scores)
		return scores
	}
	for _, c := range []struct {
		streams []int
		want    []float64
	}{{[]int{4, 3, 2}, []float64{0, -.5, -1}}, {[]int{0, 0, 0}, []float64{-2, -2, -2}}} {
		for i, got := range run(c.streams...) {
			if math.Abs(got-c.want[i]) > 1e-9 {
				t.Errorf("%v in flight: score %d is %v, want %v", c.streams, i, got, c.want[i])
			}
		}
	}
}

func TestStickyReleasesAtTau(t *testing.T) {
	p := mustNew(t, "sticky", func(c *Config) { c.Sticky.PeakRate = 20_000 })
	req := &Request{Tokens: 1000}
	cands := idle(4)
	cands[1].GPU, cands[1].Tokens = 900, 39_000
	cands[2].GPU, cands[2].Tokens = 950, 39_999
	if d := decide(t, p, req, quiet(1), cands); d.Pos != 1 || d.Reason != ReasonPrefix {
		t.Errorf("%+v: want the warm replica with the fewest tokens in flight", d)
	}
	cands[1].Tokens = 40_000
	if d := decide(t, p, req, quiet(1), cands); d.Pos != 2 {
		t.Errorf("%+v: want the other warm replica", d)
	}
	cands[2].Tokens = 40_001
	if d := decide(t, p, req, quiet(1), cands); d.Pos == 1 || d.Pos == 2 || d.Reason != ReasonSpill {
		t.Errorf("%+v: affinity is not released", d)
	}
	cands[1].GPU, cands[2].GPU = 700, 700
	if d := decide(t, p, req, quiet(1), cands); d.Reason != ReasonLoad {
		t.Errorf("%+v: .7 of the prompt counts as warm", d)
	}
}
