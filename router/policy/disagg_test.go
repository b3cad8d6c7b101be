package policy

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func disaggConfig(mode string) *Config {
	cfg := DefaultConfig()
	cfg.Disagg.Mode = mode
	return &cfg
}

func splitOf(t *testing.T, cfg *Config, tokens int, pools Pools) Split {
	t.Helper()
	p, err := New(Default, *cfg)
	if err != nil {
		t.Fatal(err)
	}
	view := &View{NowMs: 1000, Peers: 1, Rand: rand.New(rand.NewPCG(1, 2))}
	return Disaggregate(p, cfg, &Request{Tokens: tokens}, view, &pools)
}

func node(edit func(*Candidate)) Candidate {
	c := Candidate{Running: -1, Queued: -1, KVUse: -1, Rates: DefaultRates(), Weight: 1, Engine: 1}
	if edit != nil {
		edit(&c)
	}
	return c
}

func TestThresholdCountsUncachedTokens(t *testing.T) {
	cfg := disaggConfig(DisaggThreshold)
	cached := node(func(c *Candidate) { c.GPU = 8000 })
	for name, c := range map[string]struct {
		tokens int
		whole  Candidate
		want   SplitReason
	}{
		"one less":            {cfg.Disagg.Tokens - 1, node(nil), SplitShort},
		"as many":             {cfg.Disagg.Tokens, node(nil), SplitRemote},
		"long but cached":     {9000, cached, SplitShort},
		"long, little is":     {8000 + cfg.Disagg.Tokens, cached, SplitRemote},
		"busy does not count": {100, node(func(c *Candidate) { c.Streams = 500 }), SplitShort},
	} {
		s := splitOf(t, cfg, c.tokens, Pools{Whole: []Candidate{c.whole}, Prefill: []Candidate{node(nil)}, Decode: []Candidate{c.whole}})
		if s.Why != c.want || s.Remote() != (c.want == SplitRemote) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestConditionalWeighsQueuesAgainstStalls(t *testing.T) {
	cfg := disaggConfig(DisaggConditional)
	busy := node(func(c *Candidate) { c.Streams = 64 })
	queued := node(func(c *Candidate) { c.Waiting, c.Prefill = 200, 100 })
	for name, c := range map[string]struct {
		tokens         int
		whole, prefill Candidate
		want           SplitReason
	}{
		"idle decode replica":               {8000, node(nil), node(nil), SplitSooner},
		"many streams would stall":          {8000, busy, node(nil), SplitRemote},
		"nothing to compute":                {16, busy, queued, SplitSooner},
		"the prefill queue is long":         {8000, busy, queued, SplitSooner},
		"the prefill replica has it cached": {8000, node(func(c *Candidate) { c.Streams = 4 }), node(func(c *Candidate) { c.GPU = 7984 }), SplitRemote},
	} {
		s := splitOf(t, cfg, c.tokens, Pools{Whole: []Candidate{c.whole}, Prefill: []Candidate{c.prefill}, Decode: []Candidate{c.whole}})
		if s.Why != c.want {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestPairsAreOfOneEngineAndNeverDrained(t *testing.T) {
	cfg := disaggConfig(DisaggThreshold)
	other := node(func(c *Candidate) { c.Engine = 2 })
	drained := node(func(c *Candidate) { c.Weight = 0 })
	whole := []Candidate{node(nil)}
	for name, c := range map[string]struct {
		pools Pools
		want  SplitReason
	}{
		"engines differ":      {Pools{Whole: whole, Prefill: []Candidate{other}, Decode: whole}, SplitNoPair},
		"prefill is drained":  {Pools{Whole: whole, Prefill: []Candidate{drained}, Decode: whole}, SplitNoPair},
		"decode is drained":   {Pools{Whole: whole, Prefill: whole, Decode: []Candidate{drained}}, SplitNoPair},
		"no prefill replica":  {Pools{Whole: whole, Decode: whole}, SplitNoPair},
		"nobody alone can":    {Pools{Prefill: whole, Decode: whole}, SplitOnly},
		"nobody at all":       {Pools{}, SplitNoPair},
		"the second one does": {Pools{Whole: whole, Prefill: []Candidate{other, node(nil)}, Decode: whole}, SplitRemote},
	} {
		s := splitOf(t, cfg, 9000, c.pools)
		if s.Why != c.want {
			t.Errorf("%s: %+v", name, s)
		}
		if s.Remote() && c.pools.Prefill[s.Prefill.Pos].Engine != c.pools.Decode[s.Decode.Pos].Engine {
			t.Errorf("%s: engines differ: %+v", name, s)
		}
	}
}

// TestPairIsTheCheapest compares with all pairs tried one by one.
func TestPairIsTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := disaggConfig(DisaggThreshold)
		cfg.Disagg.Tokens = 0
		draw := func(name string) []Candidate {
			var out []Candidate
			for range rapid.IntRange(1, 5).Draw(t, name) {
				out = append(out, node(func(c *Candidate) {
					c.Engine = uint8(rapid.IntRange(1, 2).Draw(t, "engine"))
					c.GPU = rapid.IntRange(0, 9000).Draw(t, "gpu")
					c.Waiting = rapid.IntRange(0, 3).Draw(t, "waiting")
					c.Prefill = float64(c.Waiting) * .3
					c.Streams = rapid.IntRange(0, 50).Draw(t, "streams")
				}))
			}
			return out
		}
		pools := Pools{Prefill: draw("prefill"), Decode: draw("decode")}
		req := &Request{Tokens: 9000}
		view := &View{NowMs: 1000, Peers: 1, Rand: rand.New(rand.NewPCG(1, 2))}
		p, d, seconds, ok := bestPair(cfg, req, view, &pools)
		least, found := math.MaxFloat64, false
		for i := range pools.Prefill {
			for j := range pools.Decode {
				if pools.Prefill[i].Engine != pools.Decode[j].Engine {
					continue
				}
				found = true
				least = math.Min(least, pairSeconds(cfg, req, view, &pools, i, j))
			}
		}
		if ok != found {
			t.Fatalf("ok %v, found %v", ok, found)
		}
		if !ok {
			return
		}
		if got := pairSeconds(cfg, req, view, &pools, p.Pos, d.Pos); got > least+1e-9 || math.Abs(got-seconds) > 1e-9 {
			t.Fatalf("took %v for %v, told %v", got, least, seconds)
		}
	})
}

// pairSeconds is the formula of Disaggregate, written plainly.
func pairSeconds(cfg *Config, req *Request, view *View, pools *Pools, i, j int) float64 {
	scores := make([]float64, len(pools.Prefill))
	q := newQuery(cfg, req, view, pools.Prefill, scores)
	q.score(&best{q: q, pos: -1})
	q.release()
	d := &pools.Decode[j]
	missing := 9000 - min(d.GPU, 8999)
	return scores[i] + cfg.Disagg.Overhead + cfg.Disagg.Transfer*float64(missing) + d.Prefill + .5*d.Rates.T0*float64(d.Streams)
}

func TestAdvice(t *testing.T) {
	cfg := defaultDisagg()
	r := Rates{B: 1e-4, T0: .02, Chunk: 8192, Speed: 1}
	// 4,000 uncached tokens are .4 s of prefill; 201 tokens are 4 s of decode shared by 64.
	got, ok := cfg.Advise(Traffic{Requests: 100, Input: 500_000, Cached: 100_000, Output: 20_100}, r)
	if want := .4 / (4.0 / 64); !ok || math.Abs(got-want) > .01*want {
		t.Errorf("%v %v, want %v", got, ok, want)
	}
	for _, none := range []Traffic{{}, {Requests: 5, Input: 100, Output: 500}, {Requests: 100, Input: 1000, Output: 100}} {
		if _, ok := cfg.Advise(none, r); ok {
			t.Errorf("an advice from %+v", none)
		}
	}
}

func TestDisaggConfigIsChecked(t *testing.T) {
	for _, edit := range []func(*DisaggConfig){
		func(c *DisaggConfig) { c.Mode = "always" },
		func(c *DisaggConfig) { c.Tokens = -1 },
		func(c *DisaggConfig) { c.Transfer = math.NaN() },
		func(c *DisaggConfig) { c.Timeout = 0 },
	} {
		cfg := DefaultConfig()
		edit(&cfg.Disagg)
		if cfg.Validate() == nil {
			t.Errorf("%+v passed", cfg.Disagg)
		}
	}
}
