package policy

import (
	"math"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// twin is the formula of pickTTFT written as it stands there: no tiers, suspects
// or weights, everything recomputed, the pour by sorting.
type twin struct {
	scores  []float64
	winners map[int]bool // exact minimum
	guarded bool         // the guard acts and may pick anybody
}

func newTwin(req *Request, v *View, cands []Candidate) twin {
	n := len(cands)
	L, R, d := float64(req.Tokens), float64(v.Peers), v.AgeMs/1000
	s, S, N, B := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	U, fewest := make([]float64, n), L // uncached tokens
	late := make([]float64, n)
	t0 := 0.0
	for k, c := range cands {
		r := c.Rates
		u := math.Max(L-float64(max(c.GPU, c.Predicted)), 1)
		s[k] = math.Ceil(u/float64(r.Chunk))*r.A + r.B*u + r.CQ*(L*L-(L-u)*(L-u))
		U[k], fewest = u, math.Min(fewest, u)
		S[k], N[k] = c.Prefill, float64(c.Waiting)
		if R > 1 {
			times := math.Min(R, 16)
			S[k] += (times - 1) * c.YoungPrefill
			N[k] += (times - 1) * float64(c.YoungCount)
		}
		W := math.Max(S[k]-float64(v.NowMs-c.FirstToken)/1000, 0.1*S[k])
		if left := math.Max(L-float64(c.Fetch), 1); left < u {
			after := math.Max(c.Rates.Fetch*(0.05+1e-5*(u-left))-W, 0)
			rest := math.Ceil(left/float64(r.Chunk))*r.A + r.B*left + r.CQ*(L*L-(L-left)*(L-left))
			if after+rest < s[k] {
				s[k], late[k] = rest, after
			}
		}
		B[k] = W + 0.5*r.T0*float64(c.Streams)
		if req.Session != 0 {
			B[k] += 6 * s[k] * math.Max(c.KVUse, 0)
		}
		t0 += r.T0 / float64(n)
	}
	if R > 1 {
		B = poured(B, v.Lambda*d*(R-1)/R*(v.MeanS+0.5*t0))
	}
	nmin := math.Inf(1)
	for k := range cands {
		nmin = math.Min(nmin, N[k])
	}
	t := twin{winners: map[int]bool{}}
	best := math.Inf(1)
	for k, c := range cands {
		full := math.Max(c.KVUse, 0)
		if c.Capacity > 0 {
			full = math.Max(full, math.Min(float64(c.Held)/float64(c.Capacity), 1))
		}
		t.scores = append(t.scores, B[k]+late[k]+s[k]*(1+0.8*full*(U[k]-fewest)/U[k])+(N[k]+nmin)*s[k]/c.Rates.Speed)
		best = math.Min(best, t.scores[k])
	}
	winner := -1
	for k := range cands {
		if t.scores[k] <= best*(1+1e-9) {
			t.winners[k], winner = true, k
		}
	}
	if R > 1 && d*v.Lambda/float64(n) > 0.25 {
		alike := 0
		for k, c := range cands {
			if math.Abs(s[k]-s[winner]) <= 0.05*s[winner] && float64(max(c.GPU, c.Predicted)) >= 0.5*L {
				alike++
			}
		}
		t.guarded = float64(alike) >= 0.8*float64(n)
	}
	return t
}

// poured raises the lowest of B to one level so that the raises add up to P.
func poured(B []float64, P float64) []float64 {
	order := append([]float64(nil), B...)
	sort.Float64s(order)
	level := order[0]
	for i := range order {
		sum := 0.0
		for _, b := range order[:i+1] {
			sum += b
		}
		if level = (sum + P) / float64(i+1); i+1 == len(order) || level <= order[i+1] {
			break
		}
	}
	out := make([]float64, len(B))
	for k := range B {
		out[k] = math.Max(B[k], level)
	}
	return out
}

// drawFleet draws what a sane fleet looks like.
func drawFleet(t *rapid.T, tokens int) []Candidate {
	cands := idle(rapid.IntRange(2, 20).Draw(t, "replicas"))
	equal := rapid.Bool().Draw(t, "equal speeds")
	hot := rapid.IntRange(0, 3).Draw(t, "hot") == 0
	for i := range cands {
		c := &cands[i]
		if hot {
			c.GPU = tokens * 95 / 100
		} else {
			c.GPU = rapid.IntRange(0, tokens-1).Draw(t, "gpu")
			c.Predicted = rapid.IntRange(0, tokens-1).Draw(t, "predicted")
		}
		if c.Waiting = rapid.IntRange(0, 4).Draw(t, "waiting"); c.Waiting > 0 {
			c.Prefill = rapid.Float64Range(0.01, 8).Draw(t, "prefill")
			c.YoungCount = rapid.IntRange(0, 1).Draw(t, "young")
			c.YoungPrefill = float64(c.YoungCount) * c.Prefill / float64(c.Waiting)
		}
		c.Streams = rapid.IntRange(0, 40).Draw(t, "streams")
		c.KVUse = rapid.SampledFrom([]float64{-1, 0, .3, .6, .8, .95, 1}).Draw(t, "KV use")
		c.Capacity = rapid.SampledFrom([]int64{0, 100_000}).Draw(t, "capacity")
		c.Held = rapid.Int64Range(0, 120_000).Draw(t, "held")
		c.Fetch = rapid.SampledFrom([]int{0, 0, tokens / 2, tokens}).Draw(t, "fetch")
		c.Rates.Fetch = rapid.SampledFrom([]float64{.2, 1, 4}).Draw(t, "fetch factor")
		c.FirstToken = 1_000_000 - rapid.Int64Range(0, 3000).Draw(t, "since")
		if !equal {
			c.Rates.B *= rapid.Float64Range(0.5, 2).Draw(t, "speed")
		}
	}
	rates := make([]Rates, len(cands))
	for i := range cands {
		rates[i] = cands[i].Rates
	}
	Relative(rates)
	for i := range cands {
		cands[i].Rates = rates[i]
	}
	return cands
}

func TestI5ScoreIsTheFormula(t *testing.T) {
	p := mustNew(t, "ttft", func(c *Config) { c.TTFT.HolderSteps, c.TTFT.Spread = 0, 0 })
	guarded := 0
	rapid.Check(t, func(t *rapid.T) {
		req := &Request{Tokens: rapid.IntRange(2, 60_000).Draw(t, "tokens"), Session: rapid.Uint64Range(0, 1).Draw(t, "session")}
		cands := drawFleet(t, req.Tokens)
		v := &View{
			NowMs: 1_000_000, Peers: rapid.IntRange(1, 64).Draw(t, "peers"),
			AgeMs:  rapid.SampledFrom([]float64{0, 1, 10, 100, 2000}).Draw(t, "age"),
			Lambda: rapid.Float64Range(0, 900).Draw(t, "lambda"),
			MeanS:  rapid.Float64Range(0, 2).Draw(t, "mean s"),
			Rand:   seeded(rapid.Uint64().Draw(t, "seed")),
		}
		if rapid.IntRange(0, 3).Draw(t, "alike") == 0 { // the guard needs holders alike and an old view
			for i := range cands {
				c := &cands[i]
				c.GPU, c.CPU, c.Disk, c.Pool, c.Predicted, c.Suspect = req.Tokens-1, req.Tokens-1, req.Tokens-1, 0, 0, 0
				c.Rates = cands[0].Rates
			}
			v.AgeMs, v.Lambda, v.Peers = 2000, 900, 8
		}
		want := newTwin(req, v, cands)
		scores := make([]float64, len(cands))
		d := p.Decide(req, v, cands, scores)
		for k := range scores {
			if math.Abs(scores[k]-want.scores[k]) > 1e-9*(1+math.Abs(want.scores[k])) {
				t.Fatalf("I5: replica %d scores %v, the formula says %v", k, scores[k], want.scores[k])
			}
		}
		switch {
		case d.Reason == ReasonStale:
			if guarded++; !want.guarded {
				t.Fatalf("I5: the guard picked %d where affinity discriminates", d.Pos)
			}
		case !want.winners[d.Pos]:
			t.Fatalf("I5: picked %d for %s, want one of %v", d.Pos, d.Reason, want.winners)
		}
	})
	if guarded == 0 && !testing.Short() {
		t.Error("the guard was never drawn")
	}
}

func TestPourAddsExactlyTheWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 64).Draw(t, "bases")
		work := rapid.Float64Range(0.001, 100).Draw(t, "work")
		q := &query{base: append([]float64(nil), base...)}
		for i := range base {
			q.live = append(q.live, i)
		}
		q.pour(work)
		added, level := 0.0, math.Inf(1)
		for i := range base {
			if q.base[i] < base[i] {
				t.Fatal("pouring lowered a base")
			}
			added += q.base[i] - base[i]
			level = math.Min(level, q.base[i])
		}
		if math.Abs(added-work) > 1e-9*(1+work) {
			t.Fatalf("poured %v of %v", added, work)
		}
		for i := range base {
			if q.base[i] > base[i] && q.base[i] > level+1e-9 {
				t.Fatalf("raised to %v above the level %v", q.base[i], level)
			}
		}
	})
}

// decide runs one decision over fresh randomness.
func decide(t testing.TB, p Policy, req *Request, v *View, cands []Candidate) Decision {
	t.Helper()
	if v.Rand == nil {
		v.Rand = seeded(1)
	}
	return p.Decide(req, v, cands, nil)
}

func TestProgressIsCredited(t *testing.T) {
	// 4 s of prefill began 3.9 s ago there; 1 s has just begun here.
	cands := idle(2)
	cands[0].Waiting, cands[0].Prefill, cands[0].FirstToken = 1, 4, 1_000_000-3900
	cands[1].Waiting, cands[1].Prefill, cands[1].FirstToken = 1, 1, 1_000_000
	req := &Request{Tokens: 1000}
	if d := decide(t, mustNew(t, "ttft", nil), req, quiet(1), cands); d.Pos != 0 {
		t.Errorf("picked %d: time since the last first token is not credited", d.Pos)
	}
	off := mustNew(t, "ttft", func(c *Config) { c.TTFT.ProgressFloor = 1 })
	if d := decide(t, off, req, quiet(1), cands); d.Pos != 1 {
		t.Errorf("picked %d with the credit switched off", d.Pos)
	}
}

func TestProgressNeverFallsBelowTheFloor(t *testing.T) {
	cands := idle(2)
	cands[0].Waiting, cands[0].Prefill, cands[0].FirstToken = 1, 10, 1 // silent for ages
	req := &Request{Tokens: 1000}
	if d := decide(t, mustNew(t, "ttft", nil), req, quiet(1), cands); d.Pos != 1 {
		t.Error("a replica that has been silent for long looks idle")
	}
}

func TestUnknownFirstTokenGivesNoCredit(t *testing.T) {
	cands := idle(2)
	cands[0].Waiting, cands[0].Prefill = 1, 1.2
	cands[1].Waiting, cands[1].Prefill, cands[1].FirstToken = 1, 1.3, 1_000_000-500
	if d := decide(t, mustNew(t, "ttft", nil), &Request{Tokens: 100}, quiet(1), cands); d.Pos != 1 {
		t.Error("a replica without any first token was credited progress since 1970")
	}
}

func TestQuadraticPartOutranksALinearRate(t *testing.T) {
	// The same 8,000 uncached tokens, once in a short, once in a long prompt.
	r := DefaultRates()
	short, long := r.Prefill(8000, 8000), r.Prefill(8000, 100_000)
	if want := r.CQ * (1e10 - 92_000.0*92_000) / (r.CQ * 64e6); long-short < r.CQ*64e6*(want-1)*0.999 {
		t.Errorf("context costs %v, want %v", long-short, r.CQ*64e6*(want-1))
	}
}

func TestWaitingCountSplitsBySize(t *testing.T) {
	// Replica 0: one long request waits. Replica 1: many short ones, less work.
	cands := idle(2)
	cands[0].Waiting, cands[0].Prefill, cands[0].FirstToken = 1, 2.0, 1_000_000
	cands[1].Waiting, cands[1].Prefill, cands[1].FirstToken = 8, 1.8, 1_000_000
	p := mustNew(t, "ttft", nil)
	if d := decide(t, p, &Request{Tokens: 30_000}, quiet(1), cands); d.Pos != 0 {
		t.Error("a big miss was queued among many")
	}
	if d := decide(t, p, &Request{Tokens: 16}, quiet(1), cands); d.Pos != 1 {
		t.Error("a small one did not fill in")
	}
}

func TestFewestWaitingAnywhereFavoursSavingWork(t *testing.T) {
	// Both busy; 0 holds the prompt but has 2 s more to do; the saving is 0.46 s.
	cands := idle(2)
	cands[0].GPU = 9_000
	for i := range cands {
		cands[i].Waiting, cands[i].FirstToken = 3, 1_000_000
	}
	cands[0].Prefill, cands[1].Prefill = 3.0, 1.0
	req := &Request{Tokens: 10_000}
	if d := decide(t, mustNew(t, "ttft", nil), req, quiet(1), cands); d.Pos != 0 {
		t.Error("a saturated fleet does not save work")
	}
	off := mustNew(t, "ttft", func(c *Config) { c.TTFT.MinWaitWeight = 0 })
	if d := decide(t, off, req, quiet(1), cands); d.Pos != 1 {
		t.Error("without n_min the idler replica should win here")
	}
}

func TestTrap1OnlyTheMinimumOfWaitingIsShared(t *testing.T) {
	// Trap 1: holders have queues, others have none. Adding queues at other
	// holders must not make an idle replica look worse.
	cands := idle(8)
	for i := range 7 {
		cands[i].GPU = 9_900
		cands[i].Waiting, cands[i].Prefill, cands[i].FirstToken = 40, 1.2, 1_000_000
	}
	p := mustNew(t, "ttft", nil)
	req := &Request{Tokens: 10_000}
	if d := decide(t, p, req, quiet(1), cands); d.Pos != 7 || d.Reason != ReasonSpill {
		t.Errorf("I6: %+v: the prefix is locked to its first holders", d)
	}
}

func TestStreamsSpreadDecode(t *testing.T) {
	cands := idle(3)
	cands[0].Streams, cands[1].Streams, cands[2].Streams = 5, 1, 9
	req := &Request{Tokens: 100}
	if d := decide(t, mustNew(t, "ttft", nil), req, quiet(1), cands); d.Pos != 1 {
		t.Error("the fewest streams did not win")
	}
}

func TestTrap4PourStopsTheHerd(t *testing.T) {
	// Trap 4: one replica looks best by a hair. With a stale view and many
	// peers it must not get everything.
	cands := idle(16)
	for i := range cands {
		cands[i].Streams = 10 + i
	}
	share := func(p Policy) float64 {
		v := &View{NowMs: 1_000_000, AgeMs: 100, Peers: 64, Lambda: 30, MeanS: 0.3, Rand: seeded(4)}
		most, count := 0, map[int]int{}
		for range 1600 {
			d := p.Decide(&Request{Tokens: 1000}, v, cands, nil)
			count[d.Pos]++
			most = max(most, count[d.Pos])
		}
		return float64(most) / 1600
	}
	if got := share(mustNew(t, "ttft", nil)); got > 0.1 {
		t.Errorf("one replica gets %.2f of the decisions", got)
	}
	if got := share(mustNew(t, "ttft", func(c *Config) { c.TTFT.PourWeight = 0 })); got != 1 {
		t.Errorf("without pouring the best one should get all, got %.2f", got)
	}
}

func TestYoungDispatchesCountForAllPeers(t *testing.T) {
	cands := idle(2)
	cands[0].Waiting, cands[0].Prefill, cands[0].YoungCount, cands[0].YoungPrefill = 1, 0.2, 1, 0.2
	cands[1].Waiting, cands[1].Prefill = 1, 0.5
	for i := range cands {
		cands[i].FirstToken = 1_000_000
	}
	p := mustNew(t, "ttft", nil)
	req := &Request{Tokens: 500}
	alone := quiet(1)
	if d := decide(t, p, req, alone, cands); d.Pos != 0 {
		t.Error("a lone peer multiplies its own dispatches")
	}
	many := quiet(1)
	many.Peers = 8
	if d := decide(t, p, req, many, cands); d.Pos != 1 {
		t.Error("own young dispatches stand for those of other peers and were not multiplied")
	}
}

func TestTrap5UnequalSpeedsWeightWaitingByWork(t *testing.T) {
	// Trap 5: n is weighted by s/f. A slow replica is not punished twice.
	cands := idle(2)
	cands[0].Rates.B *= 4
	rates := []Rates{cands[0].Rates, cands[1].Rates}
	Relative(rates)
	for i := range cands {
		cands[i].Rates = rates[i]
		cands[i].Waiting, cands[i].FirstToken = 2, 1_000_000
		cands[i].Prefill = 0.01
	}
	scores := make([]float64, 2)
	req := &Request{Tokens: 8000}
	mustNew(t, "ttft", nil).Decide(req, quiet(1), cands, scores)
	slow, fast := rates[0].Prefill(8000, 8000), rates[1].Prefill(8000, 8000)
	if rates[0].Speed <= 1 || rates[1].Speed >= 1 {
		t.Fatalf("speeds %v %v", rates[0].Speed, rates[1].Speed)
	}
	want := (slow - fast) + 4*(slow/rates[0].Speed-fast/rates[1].Speed)
	if got := scores[0] - scores[1]; math.Abs(got-want) > 1e-9 {
		t.Errorf("difference %v, want %v", got, want)
	}
}
