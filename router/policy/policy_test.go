package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func mustNew(t testing.TB, name string, change func(*Config)) Policy {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	p, err := New(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// idle is n equal, idle, empty replicas.
func idle(n int) []Candidate {
	cands := make([]Candidate, n)
	for i := range cands {
		cands[i] = Candidate{
			ID: mix(uint64(i) + 77), Index: i, Running: -1, Queued: -1, KVUse: -1,
			Rates: DefaultRates(), Weight: 1,
		}
	}
	return cands
}

func quiet(seed uint64) *View {
	return &View{NowMs: 1_000_000, Peers: 1, Rand: seeded(seed)}
}

var hostile = []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e-300, 1e300}

func drawSeconds(t *rapid.T, label string) float64 {
	if rapid.IntRange(0, 30).Draw(t, label+" odd") == 0 {
		return rapid.SampledFrom(hostile).Draw(t, label)
	}
	return rapid.Float64Range(0, 20).Draw(t, label)
}

func drawCandidate(t *rapid.T, index, tokens int) Candidate {
	count := func(label string, high int) int { return rapid.IntRange(-1, high).Draw(t, label) }
	c := Candidate{
		ID: mix(uint64(index)), Index: index,
		GPU: count("gpu", tokens+16), CPU: count("cpu", tokens+16), Disk: count("disk", tokens+16),
		Pool: count("pool", tokens+16), Predicted: count("predicted", tokens+16), Suspect: count("suspect", tokens+16),
		Waiting: count("waiting", 9), Prefill: drawSeconds(t, "prefill"), Tokens: int64(count("tokens", 90_000)),
		Streams: count("streams", 60), Blocks: int64(count("blocks", 9000)),
		FirstToken: rapid.Int64Range(0, 1_000_500).Draw(t, "first token"),
		YoungCount: count("young", 2), YoungPrefill: drawSeconds(t, "young prefill"),
		Running: count("running", 60), Queued: count("queued", 20),
		KVUse: drawSeconds(t, "kv"), Capacity: int64(count("capacity", 9000)), Held: int64(count("held", 90_000)), Weight: rapid.SampledFrom([]float64{0, 0.25, 1, 1, 1, 2}).Draw(t, "weight"),
		Rates: DefaultRates(), Fetch: count("fetch", tokens+16),
	}
	if rapid.Bool().Draw(t, "odd rates") {
		c.Rates = Rates{
			A: drawSeconds(t, "a"), B: drawSeconds(t, "b"), CQ: drawSeconds(t, "cq"), T0: drawSeconds(t, "t0"),
			Chunk: rapid.IntRange(-1, 8192).Draw(t, "chunk"), Speed: drawSeconds(t, "speed"), Fetch: drawSeconds(t, "fetch factor"),
		}
	}
	return c
}

func drawRequest(t *rapid.T) *Request {
	return &Request{
		Tokens: rapid.IntRange(-1, 40_000).Draw(t, "tokens"), Key: rapid.Uint64Range(0, 5).Draw(t, "key"),
		Session: rapid.Uint64Range(0, 3).Draw(t, "session"), Prefix: rapid.Uint64Range(0, 3).Draw(t, "prefix"),
	}
}

func drawView(t *rapid.T) *View {
	return &View{
		NowMs: 1_000_000, AgeMs: rapid.SampledFrom([]float64{0, 1, 10, 100, 2000, 9000}).Draw(t, "age"),
		Peers: rapid.IntRange(0, 64).Draw(t, "peers"), Lambda: drawSeconds(t, "lambda"), MeanS: drawSeconds(t, "mean s"),
		IndexAgeMs: rapid.SampledFrom([]float64{0, 50, 9000}).Draw(t, "index age"), Share: drawSeconds(t, "share"),
	}
}

func TestI1I2AlwaysPicksALiveCandidate(t *testing.T) {
	for _, name := range Names() {
		p := mustNew(t, name, func(c *Config) {
			c.Cost.Temperature = 0.5
		})
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			req, view := drawRequest(t), drawView(t)
			cands := make([]Candidate, rapid.IntRange(0, 9).Draw(t, "candidates"))
			alive := false
			for i := range cands {
				cands[i] = drawCandidate(t, i, max(req.Tokens, 0))
				alive = alive || cands[i].Weight > 0
			}
			seed := rapid.Uint64().Draw(t, "seed")
			view.Rand = seeded(seed)
			scores := make([]float64, len(cands))
			d := p.Decide(req, view, cands, scores)
			if len(cands) == 0 {
				if d.Pos != -1 {
					t.Fatalf("I1: picked %d of nobody", d.Pos)
				}
				return
			}
			if d.Pos < 0 || d.Pos >= len(cands) {
				t.Fatalf("I1: position %d of %d", d.Pos, len(cands))
			}
			if alive && cands[d.Pos].Weight == 0 {
				t.Fatal("I2: picked a replica of weight 0")
			}
			if d.Matched < 0 || d.Matched > max(req.Tokens, 0) {
				t.Fatalf("matched %d of %d tokens", d.Matched, req.Tokens)
			}
			if name == "round_robin" {
				return
			}
			view.Rand = seeded(seed)
			if again := p.Decide(req, view, cands, nil); !same(d, again) {
				t.Fatalf("I3: %+v then %+v", d, again)
			}
		}))
	}
}

// same compares decisions whose numbers may be NaN.
func same(a, b Decision) bool {
	bits := math.Float64bits
	return a.Pos == b.Pos && a.Reason == b.Reason && a.Matched == b.Matched &&
		bits(a.Prefill) == bits(b.Prefill) && bits(a.Predicted) == bits(b.Predicted)
}

func TestNamesAreAllKnown(t *testing.T) {
	for _, name := range Names() {
		if got := mustNew(t, name, nil).Name(); got != name {
			t.Errorf("New(%q) is named %q", name, got)
		}
	}
	if !slices.Contains(Names(), Default) {
		t.Error("the default is not listed")
	}
	if _, err := New("best", DefaultConfig()); err == nil {
		t.Error("an unknown name is accepted")
	}
}
