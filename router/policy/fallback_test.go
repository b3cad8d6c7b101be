package policy

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestStaleViewFallsBackToRendezvous(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(12)
	v := &View{NowMs: 1_000_000, AgeMs: 10_000, Peers: 4, Rand: seeded(1)}
	picked := map[int]int{}
	for session := range uint64(200) {
		req := &Request{Tokens: 300, Session: session + 1}
		first := decide(t, p, req, v, cands)
		if first.Reason != ReasonStale {
			t.Fatalf("reason %s", first.Reason)
		}
		for range 5 {
			if again := decide(t, p, req, v, cands); again.Pos != first.Pos {
				t.Fatal("two turns of a session part under a stale view")
			}
		}
		picked[first.Pos]++
	}
	if len(picked) < 10 {
		t.Errorf("sessions use %d of 12 replicas", len(picked))
	}
	v.AgeMs, v.IndexAgeMs = 10, 10_000
	if d := decide(t, p, &Request{Tokens: 300, Session: 1}, v, cands); d.Reason != ReasonStale {
		t.Error("an old index alone does not count as stale")
	}
}

// With an old view a prompt that everybody sends would drown the replicas that
// its key names. A peer sees by what it is asked for itself that one is hot; a
// session says that its turns belong together.
func TestAHotPromptLeavesItsReplicasUnderAStaleView(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	spread := func(session uint64, others int) (busiest, used int) {
		cands := idle(16)
		v := &View{NowMs: 1_000_000, AgeMs: 10_000, Peers: 8, Rand: seeded(3)}
		for i := range cands {
			cands[i].GPU = 2_900
		}
		picked := map[int]int{}
		var demand Demand
		for n := range 320 {
			for i := range others {
				demand.Ask(&Request{Tokens: 3_000, Prefix: uint64(100 + n*others + i)}, v.NowMs)
			}
			req := &Request{Tokens: 3_000, Prefix: 7, Session: session}
			v.Share = demand.Ask(req, v.NowMs)
			d := decide(t, p, req, v, cands)
			if d.Reason != ReasonStale {
				t.Fatalf("reason %s", d.Reason)
			}
			picked[d.Pos]++
		}
		for _, n := range picked {
			busiest = max(busiest, n)
		}
		return busiest, len(picked)
	}
	if busiest, used := spread(0, 0); busiest > 40 || used < 16 {
		t.Errorf("%d of 16 replicas got a hot prompt, one of them %d of 320 times", used, busiest)
	}
	if _, used := spread(0, 9); used < 5 || used > 6 { // three times a tenth of 16
		t.Errorf("a prompt that is a tenth of all went to %d of 16 replicas", used)
	}
	if _, used := spread(0, 99); used > 3 { // its two, and a drawn one
		t.Errorf("a prompt that is a hundredth of all went to %d of 16 replicas", used)
	}
	if _, used := spread(9, 0); used > 2 {
		t.Errorf("a session went to %d replicas", used)
	}
	p = mustNew(t, "ttft", func(c *Config) { c.TTFT.StaleShare = 0 })
	if _, used := spread(0, 0); used > 3 {
		t.Errorf("with stale_share 0 a hot prompt went to %d replicas", used)
	}
}

// Hashing alone leaves some replicas with too much.
func TestADrownedPromptLeavesItsReplicasUnderAStaleView(t *testing.T) {
	left := func(waiting int, spill, ageMs float64) (n int) {
		p := mustNew(t, "ttft", func(c *Config) { c.TTFT.StaleSpill = spill })
		for key := range uint64(50) {
			req := &Request{Tokens: 3_000, Prefix: key + 1}
			v := &View{NowMs: 1_000_000, AgeMs: ageMs, IndexAgeMs: 10_000, Peers: 8, Rand: seeded(key)}
			cands := idle(16)
			first := decide(t, mustNew(t, "ttft", func(c *Config) { c.TTFT.StaleStay = 1000 }), req, v, cands).Pos
			own := cands[first].Rates.Prefill(3_000, 3_000)
			for i := range cands { // all hold the prompt or none does; its replicas are busy
				q := newQuery(&Config{}, req, v, cands, nil)
				if i == first || i == q.home(req.Prefix, first) {
					cands[i].Waiting, cands[i].Prefill, cands[i].FirstToken = waiting, own*float64(waiting), v.NowMs
				}
				q.release()
			}
			if d := decide(t, p, req, v, cands); cands[d.Pos].Waiting == 0 {
				n++
			}
		}
		return n
	}
	const late = 10_000
	if n := left(2, 1, late); n > 0 {
		t.Errorf("%d of 50 prompts left replicas that had two requests ten seconds ago", n)
	}
	if n := left(2, 1, 1); n < 30 { // the others have drawn one of the two
		t.Errorf("%d of 50 prompts left replicas that have two requests now", n)
	}
	if n := left(20, 1, late); n < 30 {
		t.Errorf("%d of 50 prompts left replicas that had twenty", n)
	}
	if n := left(20, 0, late); n > 0 {
		t.Errorf("with stale_spill 0 %d of 50 prompts left", n)
	}
}

// What a hot prompt's replicas hold in common says nothing; a tail that one
// replica alone holds does, until that is much busier than the others.
func TestAHotPromptsTailStaysUnderAStaleView(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	at := func(waiting int) (n int) {
		cands := idle(16)
		for i := range cands {
			cands[i].GPU = 2_000
		}
		cands[5].GPU = 9_000
		cands[5].Waiting, cands[5].Prefill, cands[5].FirstToken = waiting, 2*float64(waiting), 1_000_000
		v := &View{NowMs: 1_000_000, AgeMs: 10_000, Peers: 8, Share: .5, Rand: seeded(3)}
		for range 100 {
			if decide(t, p, &Request{Tokens: 10_000, Prefix: 7}, v, cands).Pos == 5 {
				n++
			}
		}
		return n
	}
	if n := at(0); n != 100 {
		t.Errorf("%d of 100 went to the replica that alone holds the tail", n)
	}
	if n := at(9); n > 20 {
		t.Errorf("%d of 100 went there although it is busy", n)
	}
}

func TestAHotPromptIsSharedByWeightAndSpeedUnderAStaleView(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(4)
	cands[1].Weight, cands[2].Rates.Speed, cands[3].Weight = .5, 2, 0
	v := &View{NowMs: 1_000_000, AgeMs: 10_000, Peers: 8, Share: 1, Rand: seeded(3)}
	picked := make([]int, 4)
	for range 4_000 {
		picked[decide(t, p, &Request{Tokens: 3_000, Prefix: 7}, v, cands).Pos]++
	}
	for i, want := range []int{2_000, 1_000, 1_000, 0} {
		if n := picked[i]; n < want*9/10 || n > want*11/10 {
			t.Errorf("replica %d got %d of 4,000, want %d", i, n, want)
		}
	}
}

func TestStaleViewStillUsesTheBestKnownHolder(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(12)
	cands[7].GPU = 29_000
	v := &View{NowMs: 1_000_000, AgeMs: 10_000, Peers: 4, Rand: seeded(1)}
	for session := range uint64(50) {
		if d := decide(t, p, &Request{Tokens: 30_000, Session: session + 1}, v, cands); d.Pos != 7 {
			t.Fatalf("picked %d, the holder is 7", d.Pos)
		}
	}
}

// What was held ten seconds ago is no reason to call something else a copy.
func TestStaleViewsPriceNoCopies(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	scores := func(use, ageMs float64) float64 {
		cands := idle(2)
		cands[0].GPU, cands[0].KVUse, cands[1].KVUse = 29_000, use, use
		out := make([]float64, 2)
		v := &View{NowMs: 1_000_000, AgeMs: ageMs, Peers: 4, Rand: seeded(1)}
		p.Decide(&Request{Tokens: 30_000, Session: 1}, v, cands, out)
		return out[1]
	}
	if scores(1, 10) <= scores(0, 10) {
		t.Error("a copy in a full cache costs nothing more")
	}
	if full, empty := scores(1, 10_000), scores(0, 10_000); full != empty {
		t.Errorf("by a stale view it costs %v s in a full cache, %v in an empty one", full, empty)
	}
}

func TestTiersCountAtTheirTransferCost(t *testing.T) {
	req := &Request{Tokens: 10_000}
	r := DefaultRates()
	cases := []struct {
		name string
		set  func(*Candidate)
		tier float64
		want int
	}{
		{"host memory beats computing", func(c *Candidate) { c.GPU, c.CPU = 1000, 9000 }, 5e-6, 9000},
		{"a slow disk does not", func(c *Candidate) { c.GPU, c.Disk = 1000, 9000 }, 1e-3, 1000},
		{"a pool counts for every member", func(c *Candidate) { c.Pool = 9000 }, 5e-6, 9000},
		{"deeper on a slower tier", func(c *Candidate) { c.GPU, c.CPU, c.Disk = 1000, 2000, 9000 }, 5e-6, 9000},
	}
	for _, c := range cases {
		p := mustNew(t, "ttft", func(cfg *Config) { cfg.Tiers = TierConfig{CPU: c.tier, Disk: c.tier, Pool: c.tier} })
		cands := idle(1)
		c.set(&cands[0])
		d := decide(t, p, req, quiet(1), cands)
		if d.Matched != c.want {
			t.Errorf("%s: matched %d, want %d", c.name, d.Matched, c.want)
		}
		cost := r.Prefill(10_000-c.want, 10_000)
		if c.want > 1000 {
			cost += c.tier * float64(c.want-cands[0].GPU)
		}
		if diff := d.Prefill - cost; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s: prefill %v, want %v", c.name, d.Prefill, cost)
		}
	}
}

func TestSuspectsWeighLess(t *testing.T) {
	cands := idle(2)
	cands[0].GPU, cands[0].Suspect = 8000, 8000
	cands[1].GPU = 6000
	p := mustNew(t, "ttft", nil)
	if d := decide(t, p, &Request{Tokens: 10_000}, quiet(1), cands); d.Pos != 1 || d.Matched != 6000 {
		t.Errorf("%+v: suspect facts count in full", d)
	}
	cands[0].Predicted = 8000 // a prediction vouches for them
	if d := decide(t, p, &Request{Tokens: 10_000}, quiet(1), cands); d.Pos != 0 {
		t.Error("a prediction does not settle suspect facts")
	}
}

func TestOperatorWeightScalesTheScore(t *testing.T) {
	cands := idle(2)
	cands[0].Weight = 0.25
	for seed := range uint64(50) {
		if d := decide(t, mustNew(t, "ttft", nil), &Request{Tokens: 1000}, quiet(seed), cands); d.Pos != 1 {
			t.Fatal("a replica in slow start was preferred")
		}
	}
	cands[1].Waiting, cands[1].Prefill = 1, 10
	if d := decide(t, mustNew(t, "ttft", nil), &Request{Tokens: 1000}, quiet(1), cands); d.Pos != 0 {
		t.Error("a replica in slow start gets nothing although the other one is busy")
	}
}

func TestExactTiesAreUniform(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(8)
	v := quiet(5)
	count := make([]int, 8)
	for range 8000 {
		count[p.Decide(&Request{Tokens: 500}, v, cands, nil).Pos]++
	}
	for i, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("replica %d won %d of 8000 ties", i, n)
		}
	}
}

func TestScoresMarkWhatWasNotConsidered(t *testing.T) {
	cands := idle(3)
	cands[1].Weight = 0
	scores := []float64{1, 2, 3}
	mustNew(t, "ttft", nil).Decide(&Request{Tokens: 10}, quiet(1), cands, scores)
	if scores[1] < 1e300 || scores[0] > 1 || scores[2] > 1 {
		t.Errorf("scores %v", scores)
	}
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties pools at random")
	}
	cands := idle(64)
	for _, name := range Names() {
		p := mustNew(t, name, nil)
		v := &View{NowMs: 1_000_000, AgeMs: 10, Peers: 8, Lambda: 50, MeanS: 0.3, Rand: seeded(1)}
		req := &Request{Tokens: 4096, Session: 5, Key: 6}
		if n := testing.AllocsPerRun(200, func() { p.Decide(req, v, cands, nil) }); n != 0 {
			t.Errorf("I4: %s allocates %v times", name, n)
		}
		v.AgeMs, v.Share, req.Session = 10_000, .1, 0
		if n := testing.AllocsPerRun(200, func() { p.Decide(req, v, cands, nil) }); n != 0 {
			t.Errorf("I4: %s allocates %v times by a stale view", name, n)
		}
	}
}

func TestI7CalibratorStaysInItsClamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCalibrator(Rates{})
		for range rapid.IntRange(0, 60).Draw(t, "samples") {
			c = c.FirstToken(Sample{drawSeconds(t, "predicted"), drawSeconds(t, "prefill"), drawSeconds(t, "seen")})
			c = c.Run(drawSeconds(t, "run"), rapid.IntRange(-1, 99).Draw(t, "tokens"))
		}
		r, base := c.Rates(), DefaultRates()
		if f := r.B / base.B; !(f >= 1/maxFactor/1.001 && f <= maxFactor*1.001) {
			t.Fatalf("I7: factor %v", f)
		}
		if !(r.T0 >= base.T0/maxFactor/1.001 && r.T0 <= 11) {
			t.Fatalf("I7: decode step %v", r.T0)
		}
	})
}

func TestCalibratorFindsAFactor(t *testing.T) {
	for _, truth := range []float64{0.1, 0.5, 1, 2, 10} {
		c := NewCalibrator(DefaultRates())
		rnd := seeded(8)
		for range 200 {
			tokens := 500 + rnd.IntN(8000)
			s := c.Rates().Prefill(tokens, tokens)
			seen := DefaultRates().Prefill(tokens, tokens) * truth * (0.8 + 0.4*rnd.Float64())
			c = c.FirstToken(Sample{Predicted: s, Prefill: s, Seen: seen})
		}
		if f := c.Rates().B / DefaultRates().B; f < truth*0.85 || f > truth*1.15 {
			t.Errorf("learned a factor of %.3f, truth %.3f", f, truth)
		}
	}
}

func TestCalibratorTakesTheLeastStep(t *testing.T) {
	c := NewCalibrator(Rates{})
	for _, s := range []float64{3, 2, 1, 1.5, 2.5} {
		c = c.Run(s, 100)
	}
	c = c.Run(0.0001, 3) // two chunks in one packet say nothing
	if got := c.Rates().T0; got < 0.01 || got > 0.0101 {
		t.Errorf("idle step %v, want 0.01", got)
	}
}

// learned is a calibrator after n first tokens of a replica slower by factor.
func learned(factor float64, n int, seed uint64) Calibrator {
	c, rnd := NewCalibrator(DefaultRates()), seeded(seed)
	for range n {
		tokens := 500 + rnd.IntN(8000)
		s := c.Rates().Prefill(tokens, tokens)
		seen := DefaultRates().Prefill(tokens, tokens) * factor * (0.5 + rnd.Float64())
		c = c.FirstToken(Sample{Predicted: s, Prefill: s, Seen: seen})
	}
	return c
}

func TestBlendTakesEqualReplicasForEqual(t *testing.T) {
	var fleet []Calibrator
	for i := range 16 {
		fleet = append(fleet, learned(3, 100, uint64(i)).Run(1+float64(i), 50))
	}
	rates := Blend(nil, fleet)
	for i, r := range rates {
		if f := r.B / DefaultRates().B; f < 2.3 || f > 3.5 {
			t.Errorf("replica %d: factor %.2f, truth 3", i, f)
		}
		if math.Abs(r.B/rates[0].B-1) > 0.15 || math.Abs(r.Speed-1) > 0.15 {
			t.Errorf("replica %d differs from its equals: %v, speed %v", i, r.B/rates[0].B, r.Speed)
		}
		if r.T0 > 0.025 {
			t.Errorf("replica %d: decode step %v, the fleet's least is 0.02", i, r.T0)
		}
	}
}

func TestBlendSeesAHalfSpeedReplica(t *testing.T) {
	fleet := []Calibrator{learned(1, 300, 1), learned(1, 300, 2), learned(1, 300, 3), learned(2.5, 300, 4).Run(1, 50)}
	rates := Blend(nil, fleet)
	if f := rates[3].B / rates[0].B; f < 1.8 || f > 3 {
		t.Errorf("slow replica believed %.2f times slower, truth 2.5", f)
	}
	if rates[3].Speed < 1.3 || rates[3].T0 < 1.3*rates[0].T0 {
		t.Errorf("speed %v, step %v against %v", rates[3].Speed, rates[3].T0, rates[0].T0)
	}
	if few := Blend(nil, []Calibrator{learned(1, 50, 1), learned(1, 50, 2), learned(4, 2, 3)}); few[2].B > 1.6*few[0].B {
		t.Errorf("two samples make a replica %.2f times slower", few[2].B/few[0].B)
	}
}

func TestStaleSmallDifferencesDoNotMoveASession(t *testing.T) {
	p := mustNew(t, "ttft", nil)
	cands := idle(2)
	v := &View{NowMs: 1_000_000, AgeMs: 10_000, Peers: 4, Rand: seeded(1)}
	req := &Request{Tokens: 2000, Session: 7}
	home := decide(t, p, req, v, cands).Pos
	c := &cands[home]
	c.FirstToken = 1_000_000
	if c.Streams = 2; decide(t, p, req, v, cands).Pos != home {
		t.Error("two streams of ten seconds ago moved the session")
	}
	if c.Waiting = 4; decide(t, p, req, v, cands).Pos == home {
		t.Error("the session stays behind a queue")
	}
	still := mustNew(t, "ttft", func(c *Config) { c.TTFT.StaleStay = 0 })
	if c.Waiting = 0; decide(t, still, req, v, cands).Pos == home {
		t.Error("without the factor the least score should win")
	}
}
