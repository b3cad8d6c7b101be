package replica_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/simulation/replica"
)

var fit = flag.Bool("fit", false, "fit the gate's profiles anew and print them")

// gates are what vLLM 0.19.0 took for the 300 ShareGPT requests, by profile.
// The figures were measured on the GPU named: TTFT mean and p99 (ms), TPOT mean
// (ms), makespan (s).
var gates = []gate{
	{"rtxpro6000-8b", "RTXPRO6000_Llama-3.1-8B", 7097, 19755, 32.5, 65.9},
	{"rtx4090-8b", "RTX4090_Llama-3.1-8B", 65457, 137356, 32.4, 183.6},
	{"rtxpro6000-32b", "RTXPRO6000_Qwen3-32B", 36905, 93347, 80.3, 159.7},
	{"rtxpro6000-30b-a3b", "RTXPRO6000_Qwen3-30B-A3B-Instruct-2507", 1086, 9588, 47.3, 64.0},
}

type gate struct {
	profile, file          string
	mean, p99, tpot, makes float64
}

// measured is one request of a recorded run.
type measured struct {
	In     int     `json:"input_toks"`
	Out    int     `json:"output_toks"`
	Queued float64 `json:"queued_ts"`
	First  float64 `json:"first_token_ts"`
	Last   float64 `json:"last_token_ts"`
}

func readMeasured(t testing.TB, file string) []measured {
	t.Helper()
	for _, dir := range []string{os.Getenv("BANYAN_TRACES"), "../../../shared/traces"} {
		if dir == "" {
			continue
		}
		f, err := os.Open(filepath.Join(dir, "measured", file+".requests.jsonl"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var out []measured
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var m measured
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
		slices.SortStableFunc(out, func(a, b measured) int {
			if a.Queued < b.Queued {
				return -1
			}
			return 1
		})
		return out
	}
	t.Skip("no measured runs: set BANYAN_TRACES to the directory of the traces")
	return nil
}

// outcome is TTFT and TPOT of every request, seconds, and the makespan.
type outcome struct {
	ttft, tpot []float64
	makes      float64
	preempted  uint64
}

func recorded(ms []measured) (o outcome) {
	for _, m := range ms {
		o.ttft = append(o.ttft, m.First-m.Queued)
		o.tpot = append(o.tpot, (m.Last-m.First)/float64(max(1, m.Out-1)))
		o.makes = max(o.makes, m.Last-ms[0].Queued)
	}
	return o
}

// replay runs the recorded arrivals on one modelled replica.
func replay(t testing.TB, p replica.Profile, ms []measured) (o outcome) {
	r, err := replica.New(replica.Config{Profile: p, NoCache: true})
	if err != nil {
		t.Fatal(err)
	}
	first := make([]float64, len(ms))
	o = outcome{ttft: make([]float64, len(ms)), tpot: make([]float64, len(ms))}
	run := func(until float64) {
		for {
			res, ok := r.Step(until)
			if !ok {
				return
			}
			for _, tok := range res.Tokens {
				i := tok.ID
				if tok.First {
					first[i] = res.End
					o.ttft[i] = res.End - (ms[i].Queued - ms[0].Queued)
				}
				if tok.Done {
					o.tpot[i] = (res.End - first[i]) / float64(max(1, ms[i].Out-1))
					o.makes = max(o.makes, res.End)
				}
			}
		}
	}
	for i, m := range ms {
		at := m.Queued - ms[0].Queued
		run(at)
		if err := r.Submit(at, replica.Request{ID: uint64(i), Prompt: m.In, Output: m.Out}); err != nil {
			t.Fatal(err)
		}
	}
	run(math.Inf(1))
	o.preempted = r.Stats().Preempted
	return o
}

// figures sums up the requests for which keep holds.
func (o outcome) figures(keep func(i int) bool) (mean, p99, tpot float64) {
	var ttft []float64
	n := 0.0
	for i := range o.ttft {
		if keep(i) {
			ttft = append(ttft, o.ttft[i])
			mean += o.ttft[i]
			tpot += o.tpot[i]
			n++
		}
	}
	slices.Sort(ttft)
	return mean / n, ttft[int(math.Ceil(.99*n))-1], tpot / n
}

func even(i int) bool { return i%2 == 0 }
func odd(i int) bool  { return i%2 == 1 }
func all(int) bool    { return true }

// TestGate replays the measured runs. Every profile was fitted (-fit) on the
// even requests of its file; it is judged on the odd ones and on the whole.
// It may be 10 % off on means and 15 % on p99.
func TestGate(t *testing.T) {
	for _, g := range gates {
		t.Run(g.profile, func(t *testing.T) {
			ms := readMeasured(t, g.file)
			p, err := replica.ProfileByName(g.profile)
			if err != nil {
				t.Fatal(err)
			}
			truth, model := recorded(ms), replay(t, p, ms)
			for _, half := range []struct {
				name string
				keep func(int) bool
			}{{"odd", odd}, {"all", all}} {
				wantMean, wantP99, wantTPOT := truth.figures(half.keep)
				mean, p99, tpot := model.figures(half.keep)
				t.Logf("%s: TTFT mean %.0f of %.0f ms, p99 %.0f of %.0f ms, TPOT %.1f of %.1f ms, makespan %.1f of %.1f s, %d preemptions",
					half.name, mean*1e3, wantMean*1e3, p99*1e3, wantP99*1e3, tpot*1e3, wantTPOT*1e3, model.makes, truth.makes, model.preempted)
				within(t, "TTFT mean", mean, wantMean, .10)
				within(t, "TTFT p99", p99, wantP99, .15)
				within(t, "TPOT mean", tpot, wantTPOT, .10)
			}
			mean, p99, tpot := model.figures(all)
			within(t, "published TTFT mean", mean*1e3, g.mean, .10)
			within(t, "published TTFT p99", p99*1e3, g.p99, .15)
			within(t, "published TPOT", tpot*1e3, g.tpot, .10)
			within(t, "published makespan", model.makes, g.makes, .10)
		})
	}
}

// TestUnfittedProfilePredicts replays a measured run on a profile that no
// measured run went into: layer times of timing.json, computed attention.
// The halves above share one queue; this is the stricter check.
func TestUnfittedProfilePredicts(t *testing.T) {
	g := gates[1]
	ms := readMeasured(t, g.file)
	p, err := replica.ProfileByName("llama3.1-8b_rtx4090_linear")
	if err != nil {
		t.Fatal(err)
	}
	model := replay(t, p, ms)
	mean, p99, tpot := model.figures(all)
	t.Logf("TTFT mean %.0f of %.0f ms, p99 %.0f of %.0f ms, TPOT %.1f of %.1f ms, makespan %.1f of %.1f s", mean*1e3, g.mean, p99*1e3, g.p99, tpot*1e3, g.tpot, model.makes, g.makes)
	within(t, "TTFT mean", mean*1e3, g.mean, .10)
	within(t, "TTFT p99", p99*1e3, g.p99, .15)
	within(t, "TPOT", tpot*1e3, g.tpot, .10)
	within(t, "makespan", model.makes, g.makes, .10)
}

func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s is %.4g, want %.4g within %.0f %%: off by %+.1f %%", what, got, want, tolerance*100, (got/want-1)*100)
	}
}

// TestFit fits the gate's profiles on the even requests by Nelder-Mead over
// the logarithms of the coefficients and prints them.
func TestFit(t *testing.T) {
	if !*fit {
		t.Skip("only with -fit")
	}
	for _, g := range gates {
		ms := readMeasured(t, g.file)
		truth := recorded(ms)
		start, err := replica.ProfileByName(g.profile)
		if err != nil {
			t.Fatal(err)
		}
		loss := func(x []float64) float64 { return misfit(truth, replay(t, withCoefficients(start, x), ms)) }
		x, best := minimise(loss, coefficients(start), 1500)
		p := withCoefficients(start, x)
		t.Logf("%s: misfit %.4f\nCQ: %.3g, D1: %.3g, D2: %.3g, Linear: %+v", g.profile, best, p.CQ, p.D1, p.D2, p.Linear)
	}
}

// misfit is the mean squared error of the even requests, TTFT and TPOT each
// relative to its mean.
func misfit(truth, model outcome) float64 {
	mean, p99, tpot := truth.figures(even)
	gotMean, gotP99, gotTPOT := model.figures(even)
	sum, n := 0.0, 0.0
	for i := range truth.ttft {
		if even(i) {
			sum += sq((model.ttft[i]-truth.ttft[i])/mean) + sq((model.tpot[i]-truth.tpot[i])/tpot)
			n++
		}
	}
	return sum/n + sq(gotMean/mean-1) + sq(gotP99/p99-1) + sq(gotTPOT/tpot-1) + sq(model.makes/truth.makes-1)
}

func sq(x float64) float64 { return x * x }

// coefficients are the logarithms of what a fit may change.
func coefficients(p replica.Profile) []float64 {
	x := []float64{math.Log(p.CQ), math.Log(p.D1), math.Log(p.D2)}
	last := 0.0
	for _, pt := range p.Linear {
		x = append(x, math.Log(pt.Seconds-last))
		last = pt.Seconds
	}
	return x
}

func withCoefficients(p replica.Profile, x []float64) replica.Profile {
	p.CQ, p.D1, p.D2 = math.Exp(x[0]), math.Exp(x[1]), math.Exp(x[2])
	p.Linear = slices.Clone(p.Linear)
	sum := 0.0
	for i := range p.Linear {
		sum += math.Exp(x[3+i])
		p.Linear[i].Seconds = sum
	}
	return p
}

// minimise is the Nelder-Mead simplex, restarted once from its result.
func minimise(f func([]float64) float64, x []float64, evaluations int) ([]float64, float64) {
	rnd := rand.New(rand.NewPCG(1, 1))
	best := f(x)
	for range 3 {
		x, best = simplex(f, x, evaluations/3, rnd)
	}
	return x, best
}

type vertex struct {
	x []float64
	f float64
}

func simplex(f func([]float64) float64, x []float64, evaluations int, rnd *rand.Rand) ([]float64, float64) {
	n := len(x)
	v := []vertex{{x, f(x)}}
	for i := range n {
		y := slices.Clone(x)
		y[i] += .3 + .2*rnd.Float64()
		v = append(v, vertex{y, f(y)})
	}
	order := func() {
		slices.SortFunc(v, func(a, b vertex) int {
			if a.f < b.f {
				return -1
			}
			return 1
		})
	}
	for used := n + 1; used < evaluations; used++ {
		order()
		center := make([]float64, n)
		for _, p := range v[:n] {
			for i := range center {
				center[i] += p.x[i] / float64(n)
			}
		}
		at := func(k float64) vertex {
			y := make([]float64, n)
			for i := range y {
				y[i] = center[i] + k*(v[n].x[i]-center[i])
			}
			return vertex{y, f(y)}
		}
		switch r := at(-1); {
		case r.f < v[0].f:
			if e := at(-2); e.f < r.f {
				r = e
			}
			v[n] = r
		case r.f < v[n-1].f:
			v[n] = r
		default:
			if c := at(.5); c.f < v[n].f {
				v[n] = c
				continue
			}
			for j := 1; j <= n; j++ {
				for i := range n {
					v[j].x[i] = (v[j].x[i] + v[0].x[i]) / 2
				}
				v[j].f = f(v[j].x)
			}
		}
	}
	order()
	return v[0].x, v[0].f
}
