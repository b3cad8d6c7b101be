package policy

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// What stands between the score and the pick: guard, holder, spread.

func TestGuardNeedsHitsEverywhere(t *testing.T) {
	v := func() *View {
		return &View{NowMs: 1_000_000, AgeMs: 100, Peers: 64, Lambda: 900, MeanS: 0.02, Rand: seeded(3)}
	}
	cands := idle(10)
	for i := range cands {
		cands[i].GPU = 950
		cands[i].Waiting, cands[i].Prefill, cands[i].FirstToken = i, float64(i), 1_000_000
	}
	p := mustNew(t, "ttft", nil)
	seen, random := map[int]bool{}, 0
	view := v()
	for range 300 {
		d := decide(t, p, &Request{Tokens: 1000}, view, cands)
		if d.Reason == ReasonStale {
			random++
			seen[d.Pos] = true
		}
	}
	// 9 unseen decisions a replica; one in 36 is left to the score.
	if random < 270 || random == 300 || len(seen) != 10 {
		t.Errorf("%d of 300 decisions at random reached %d of 10", random, len(seen))
	}
	cands[4].GPU, cands[5].GPU, cands[6].GPU = 0, 0, 0 // three of ten lack it: misses must see load
	view = v()
	for range 300 {
		if d := decide(t, p, &Request{Tokens: 1000}, view, cands); d.Reason == ReasonStale {
			t.Fatal("the guard took over although affinity discriminates")
		}
	}
}

// A replica that lacks a hot prompt gets it in time, without flooding it with
// misses: its odds are those of a holder times how much sooner that computes.
func TestGuardDrawsThoseThatLackThePrompt(t *testing.T) {
	v := &View{NowMs: 1_000_000, AgeMs: 100, Peers: 64, Lambda: 9000, MeanS: 0.02, Rand: seeded(5)}
	cands := idle(10)
	for i := range cands {
		cands[i].GPU = 950
		cands[i].Waiting, cands[i].Prefill, cands[i].FirstToken = i, float64(i), 1_000_000
	}
	cands[4].GPU, cands[5].GPU = 0, 0
	cands[6].Weight = 0.5
	p, picked := mustNew(t, "ttft", nil), make([]float64, len(cands))
	for range 20_000 {
		if d := decide(t, p, &Request{Tokens: 1000}, v, cands); d.Reason == ReasonStale {
			picked[d.Pos]++
		}
	}
	r := DefaultRates()
	miss := r.Prefill(50, 1000) / r.Prefill(1000, 1000)
	holder := (picked[0] + picked[1] + picked[2] + picked[3] + picked[7] + picked[8] + picked[9]) / 7
	for i, want := range []float64{4: miss, 5: miss, 6: 0.5, 7: 1, 8: 1, 9: 1} {
		if got := picked[i] / holder; want > 0 && math.Abs(got-want) > 0.15*want {
			t.Errorf("replica %d was drawn %.2f times as often as the holders, want %.2f", i, got, want)
		}
	}
}

func TestTurnsStayWithTheirHolderWithinAFewSteps(t *testing.T) {
	cands := idle(2)
	cands[0].GPU, cands[0].Streams = 1000, 6 // saves 0.02 s, costs 0.048 s of streams
	cands[1].GPU = 500
	req := &Request{Tokens: 1100}
	if d := decide(t, mustNew(t, "ttft", nil), req, quiet(1), cands); d.Pos != 0 {
		t.Error("a turn left its holder for less than three decode steps")
	}
	off := mustNew(t, "ttft", func(c *Config) { c.TTFT.HolderSteps = 0 })
	if d := decide(t, off, req, quiet(1), cands); d.Pos != 1 {
		t.Error("without slack the score alone decides")
	}
	cands[0].Streams = 12
	if d := decide(t, mustNew(t, "ttft", nil), req, quiet(1), cands); d.Pos != 1 {
		t.Error("a turn stays at a holder that is more than three steps worse")
	}
}

// What a copy pushes out of a full cache is computed again: there a prompt
// stays where it is.
func TestFullCachesKeepPromptsTogether(t *testing.T) {
	req := &Request{Tokens: 7200}
	p := mustNew(t, "ttft", nil)
	for _, c := range []struct {
		name      string
		use       float64
		held, cap int64
		want      int
	}{
		{"nothing known", -1, 0, 0, 1},
		{"little in use", 0.3, 0, 0, 1},
		{"much in use", 0.9, 0, 0, 0},
		{"little held", 0.1, 30_000, 100_000, 1},
		{"much held, though idle", 0.1, 90_000, 100_000, 0},
		{"the capacity is not known", 0.1, 90_000, 0, 1},
		{"more held than there is, on other tiers", 0, 900_000, 100_000, 0},
	} {
		cands := idle(2)
		cands[0].GPU, cands[0].Waiting, cands[0].Prefill, cands[0].FirstToken = 7000, 6, 0.45, 1_000_000
		for i := range cands {
			cands[i].KVUse, cands[i].Held, cands[i].Capacity = c.use, c.held, c.cap
		}
		if d := decide(t, p, req, quiet(1), cands); d.Pos != c.want {
			t.Errorf("%s: replica %d, want %d", c.name, d.Pos, c.want)
		}
	}
}

// What nobody holds is no copy wherever it is computed, and full caches are no
// worse for it than others. Of what somebody holds in part only that part is.
func TestOnlyCopiesArePriced(t *testing.T) {
	for _, held := range []int{0, 4000} {
		cands := idle(3)
		cands[0].Held, cands[0].Capacity, cands[2].GPU = 9000, 9000, held
		scores := make([]float64, 3)
		req := &Request{Tokens: 8000}
		mustNew(t, "ttft", nil).Decide(req, quiet(1), cands, scores)
		want := 0.8 * float64(held) / 8000 * cands[0].Rates.Prefill(8000, 8000)
		if got := scores[0] - scores[1]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%d of 8,000 tokens held elsewhere: a full cache costs %v s more, want %v", held, got, want)
		}
	}
}

// TestANewSessionGoesWhereThereIsRoom: of two replicas alike, one has three
// quarters of its cache in use and holds the beginning that many sessions share.
// What saves a tenth of the prompt there would push out what others work on; a
// turn whose context is there pushes out nothing and stays.
func TestANewSessionGoesWhereThereIsRoom(t *testing.T) {
	cands := idle(2)
	cands[0].KVUse, cands[1].KVUse = .75, .25
	for _, c := range []struct {
		held, want int
		weight     float64
	}{{2000, 1, 1}, {2000, 0, 0}, {19_500, 0, 1}} {
		cands[0].GPU = c.held
		p := mustNew(t, "ttft", func(cfg *Config) { cfg.TTFT.LiveWeight, cfg.TTFT.Spread = c.weight, 0 })
		if d := decide(t, p, &Request{Tokens: 20_000, Session: 7}, quiet(1), cands); d.Pos != c.want {
			t.Errorf("%d of 20,000 tokens held, live_weight %v: replica %d, want %d", c.held, c.weight, d.Pos, c.want)
		}
	}
}

// TestWhatIsInUseDoesNotHerd: every peer reads the same figure of a scrape, so
// where more is unseen than it differs by, it decides nothing.
func TestWhatIsInUseDoesNotHerd(t *testing.T) {
	cands := idle(2)
	cands[0].KVUse, cands[1].KVUse = .26, .2
	v := quiet(1)
	v.Peers, v.AgeMs, v.Lambda, v.MeanS = 16, 100, 4, 4
	scores := make([]float64, 2)
	mustNew(t, "ttft", nil).Decide(&Request{Tokens: 20_000, Session: 7}, v, cands, scores)
	if math.Abs(scores[0]-scores[1]) > 1e-9 {
		t.Errorf("scores of %v and %v s, though 1.5 s of work is unseen", scores[0], scores[1])
	}
}

// TestAStaleViewPricesNothingInUse: nobody knows then what is in use.
func TestAStaleViewPricesNothingInUse(t *testing.T) {
	cands := idle(2)
	cands[0].KVUse, cands[1].KVUse = .9, .9
	late := quiet(1)
	late.IndexAgeMs = 1e5
	scores := make([]float64, 2)
	d := mustNew(t, "ttft", nil).Decide(&Request{Tokens: 8000, Session: 7}, late, cands, scores)
	if got, want := scores[d.Pos], cands[0].Rates.Prefill(8000, 8000); math.Abs(got-want) > 1e-9 {
		t.Errorf("a score of %v s, want %v", got, want)
	}
}

func TestSpreadRentsUntilItPaysToBuy(t *testing.T) {
	// Replica 0 holds the prompt and has 20 streams, 1 is empty: staying costs
	// 10 steps less the slack of 3, 0.112 s, going 0.37 s once.
	cands := idle(2)
	cands[0].GPU, cands[0].Streams = 7900, 20
	req, v := &Request{Tokens: 8000}, quiet(3)
	moved := func(change func(*Config)) int {
		p, n := mustNew(t, "ttft", change), 0
		for range 4000 {
			if d := decide(t, p, req, v, cands); d.Pos == 1 {
				n++
				if cands[0].GPU > 0 && d.Reason != ReasonSpill {
					t.Fatalf("reason %s", d.Reason)
				}
			}
		}
		return n
	}
	r := DefaultRates()
	price := r.Prefill(8000, 8000) - r.Prefill(100, 8000)
	want := 4000 * 0.1 * 7 * r.T0 / price
	if got := float64(moved(nil)); got < 0.6*want || got > 1.4*want {
		t.Errorf("%v of 4000 decisions went to the empty replica, want about %.0f", got, want)
	}
	if n := moved(func(c *Config) { c.TTFT.Spread = 0 }); n > 0 {
		t.Errorf("%d went although spreading is off", n)
	}
	cands[1].Held, cands[1].Capacity = 500_000, 500_000 // the copy pushes out as much
	if got := float64(moved(nil)); got < 0.5*want/5 || got > 1.6*want/5 {
		t.Errorf("%v of 4000 decisions went to an empty replica whose cache is full, want about %.0f", got, want/5)
	}
	cands[1].Held = 0
	cands[0].Streams = 6 // no more than the slack of a holder
	if n := moved(nil); n > 0 {
		t.Errorf("%d went for three steps", n)
	}
	cands[0].Streams, cands[0].GPU = 20, 0 // nobody holds it: the score itself goes
	if n := moved(nil); n != 4000 {
		t.Errorf("%d of 4000 went to the idler of two equals", n)
	}
}

func TestTrap3SharedBlocksAreNotSummed(t *testing.T) {
	// Streams of one prompt share its blocks: the sum of what each holds says
	// nothing of the cache, and must not move a decision.
	p := mustNew(t, "ttft", nil)
	rapid.Check(t, func(t *rapid.T) {
		req := &Request{Tokens: rapid.IntRange(2, 60_000).Draw(t, "tokens")}
		cands := drawFleet(t, req.Tokens)
		seed := rapid.Uint64().Draw(t, "seed")
		before := p.Decide(req, quiet(seed), cands, nil)
		for i := range cands {
			cands[i].Blocks = rapid.Int64Range(0, 1<<40).Draw(t, "blocks")
		}
		if after := p.Decide(req, quiet(seed), cands, nil); after != before {
			t.Fatalf("%+v, with other block counts %+v", before, after)
		}
	})
}
