package simulation

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/workload"
)

func generated(t testing.TB, name string, o workload.Options) *workload.Workload {
	t.Helper()
	w, err := workload.Generate(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func evaluate(t testing.TB, cfg Config) Report {
	t.Helper()
	rep, err := Evaluate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// routing is the default policy configuration with a change.
func routing(change func(*policy.Config)) *policy.Config {
	cfg := policy.DefaultConfig()
	change(&cfg)
	return &cfg
}

func TestE1SameConfigSameReport(t *testing.T) {
	w := generated(t, "multi_turn", workload.Options{Seed: 3, Requests: 300})
	for _, name := range append(policy.Names(), Pooled) {
		cfg := Config{Workload: w, Policy: name, Peers: 4, LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05, Seed: 9}
		a, b := evaluate(t, cfg), evaluate(t, cfg)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("E1: %s: %+v then %+v", name, a, b)
		}
	}
}

func TestE2EveryRequestIsAccountedFor(t *testing.T) {
	w := generated(t, "multi_turn", workload.Options{Seed: 1, Requests: 400})
	for _, name := range append(policy.Names(), Pooled) {
		rep := evaluate(t, Config{Workload: w, Policy: name, Peers: 3, LoadDelay: 0.02, DispatchDelay: -1, Seed: 1})
		if rep.Completed != len(w.Requests) || rep.Requests != len(w.Requests) {
			t.Errorf("E2: %s completed %d of %d", name, rep.Completed, len(w.Requests))
		}
		sum := 0
		for _, n := range rep.PerReplica {
			sum += n
		}
		if sum != rep.Completed {
			t.Errorf("E2: %s: replicas served %d, completed %d", name, sum, rep.Completed)
		}
	}
}

func TestE2WhatCannotFitIsNotCompleted(t *testing.T) {
	w := generated(t, "few_prefixes", workload.Options{Seed: 1, Requests: 40})
	rep := evaluate(t, Config{Workload: w, KVTokens: 4096})
	if rep.Completed != 0 || rep.Requests != 40 {
		t.Errorf("E2: completed %d of %d prompts of 10,000 tokens in 4,096", rep.Completed, rep.Requests)
	}
}

// truth sums a run's jobs as nobody's view does.
func truth(r *run, k int) (l crdt.Load) {
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.arrived == 0 || j.replica != k || j.done > 0 || j.keys == nil {
			continue
		}
		if j.first > 0 {
			l.Streams++
			l.Blocks += j.blocks
			continue
		}
		l.Waiting++
		l.Prefill += j.prefill
		l.Tokens += j.tokens
	}
	return l
}

// sees is a peer's sum of a replica's registers, without what is no load.
func sees(r *run, peer, k int) crdt.Load {
	sum, _, _ := r.views.peers[peer].loads.Totals(r.views.names[k])
	sum.FirstToken = 0
	return sum
}

// same reports whether two loads are equal but for the rounding of sums.
func same(a, b crdt.Load) bool {
	near := math.Abs(a.Prefill-b.Prefill) < 1e-6
	a.Prefill = b.Prefill
	return near && a == b
}

// stepping plays a run and calls look after every arrival.
func stepping(t *testing.T, cfg Config, look func(r *run, now float64)) {
	t.Helper()
	cfg, err := cfg.complete()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for {
		next, k := math.Inf(1), -1
		for i, e := range r.engines {
			if at := e.Next(); at < next {
				next, k = at, i
			}
		}
		if r.arrivals.len() > 0 && r.arrivals.first() <= next {
			a := r.arrivals.pop()
			r.arrive(a.at, a.job)
			look(r, a.at)
			continue
		}
		if k < 0 {
			return
		}
		r.step(next, k)
	}
}

func TestE3OnePeerWithoutDelaySeesTheTruth(t *testing.T) {
	w := generated(t, "multi_turn", workload.Options{Seed: 2, Requests: 200})
	stepping(t, Config{Workload: w}, func(r *run, now float64) {
		for k := range r.engines {
			want, got := truth(r, k), sees(r, 0, k)
			if !same(got, want) {
				t.Fatalf("E3: view %+v, truth %+v", got, want)
			}
			st := r.engines[k].Stats()
			if st.Running+st.Waiting != int(got.Waiting+got.Streams) {
				t.Fatalf("E3: engine has %d, view %d", st.Running+st.Waiting, got.Waiting+got.Streams)
			}
		}
	})
}

// Each peer counts what it did at once; when all frames have come, every peer
// sees the truth.
func TestE4ViewsAreCompleteAfterTheDelay(t *testing.T) {
	w := generated(t, "multi_turn", workload.Options{Seed: 2, Requests: 200})
	cfg := Config{Workload: w, Peers: 5, LoadDelay: 0.5, DispatchDelay: 0.2}
	behind, last := 0, 0
	stepping(t, cfg, func(r *run, now float64) {
		if last++; last == len(w.Requests) {
			r.views.advance(math.Inf(1))
		}
		for k := range r.engines {
			want, own := truth(r, k), 0
			for p := range cfg.Peers {
				own += r.views.peers[p].loads.InFlight(r.views.names[k])
				if got := sees(r, p, k); same(got, want) {
					continue
				} else if last == len(w.Requests) {
					t.Fatalf("E4: all is told, peer %d sees %+v, truth %+v", p, got, want)
				}
				behind++
			}
			if own != int(want.Waiting+want.Streams) {
				t.Fatalf("E4: the peers' own requests are %d, truth %d", own, want.Waiting+want.Streams)
			}
		}
	})
	if behind == 0 {
		t.Error("nobody was ever behind")
	}
}

func TestE4OthersSeeADispatchAfterTheDelay(t *testing.T) {
	v := newViews(&Config{Peers: 2, Replicas: 1, DispatchDelay: 0.1, LoadDelay: 0.3})
	j := &job{peer: 0, prefill: 2, tokens: 50, blocks: 4}
	see := func(now float64, peer, waiting, streams int) {
		t.Helper()
		v.advance(now)
		if s, _, _ := v.peers[peer].loads.Totals(v.names[0]); int(s.Waiting) != waiting || int(s.Streams) != streams {
			t.Errorf("E4: at %v peer %d sees %+v, want %d waiting, %d streams", now, peer, s, waiting, streams)
		}
	}
	v.dispatch(1, j, false)
	see(1, 0, 1, 0)
	see(1.05, 1, 0, 0)
	see(1.11, 1, 1, 0)
	v.firstToken(2, j)
	see(2, 0, 0, 1)
	see(2.2, 1, 1, 0)
	see(2.31, 1, 0, 1)
	if s, _, _ := v.peers[1].loads.Totals(v.names[0]); s.FirstToken != millis(2) {
		t.Errorf("the other peer knows a first token at %v, want %v", s.FirstToken, millis(2))
	}
	v.finish(3, j)
	see(3, 0, 0, 0)
	see(3.31, 1, 0, 0)
}

func TestE5IndexHoldsWhatEnginesHold(t *testing.T) {
	w := generated(t, "agents", workload.Options{Seed: 5, Requests: 300})
	checks := 0
	all, last := map[uint64]bool{}, map[uint64]uint64{}
	stepping(t, Config{Workload: w, KVTokens: 40_000, PredictFor: -1}, func(r *run, now float64) {
		r.index.advance(now)
		last = r.index.holders
		for i := range r.jobs {
			j := &r.jobs[i]
			if j.keys == nil {
				continue
			}
			pages := j.keys[:j.req.Tokens/r.cfg.Page]
			for _, key := range pages {
				all[key] = true
			}
			r.index.match(now, 0, pages, r.deep[0], r.deep[1])
			for k, e := range r.engines {
				if !math.IsInf(e.Next(), 1) {
					continue // what a step evicts and stores is told at its end
				}
				if has := e.Cached(pages, math.MaxInt32) / r.cfg.Page; r.deep[0][k] != has {
					t.Fatalf("E5: index believes %d pages, engine has %d", r.deep[0][k], has)
				}
				checks++
			}
		}
	})
	if checks < 1000 || len(last) >= len(all) {
		t.Fatalf("%d checks, %d of %d pages left: nothing was evicted", checks, len(last), len(all))
	}
}

func TestPredictionsAreSeenByTheirAuthorFirst(t *testing.T) {
	x := newIndex(&Config{DispatchDelay: 0.1, PredictFor: 5})
	keys := []uint64{1, 2, 3}
	x.predict(10, 0, 1, keys)
	depth := func(now float64, peer int) []int {
		x.advance(now)
		sure, maybe := make([]int, 2), make([]int, 2)
		x.match(now, peer, keys, sure, maybe)
		if sure[0]+sure[1] != 0 {
			t.Errorf("a prediction counts as confirmed: %v", sure)
		}
		return maybe
	}
	for _, c := range []struct {
		now  float64
		peer int
		want []int
	}{{10, 0, []int{0, 3}}, {10.05, 1, []int{0, 0}}, {10.11, 1, []int{0, 3}}, {15.1, 0, []int{0, 0}}} {
		if got := depth(c.now, c.peer); !slices.Equal(got, c.want) {
			t.Errorf("at %v peer %d expects %v, want %v", c.now, c.peer, got, c.want)
		}
	}
	if len(x.predicted) != 0 {
		t.Error("expired predictions are kept")
	}
}

func TestUnlimitedSingleReplicaFindsTheIdealHit(t *testing.T) {
	w := generated(t, "few_prefixes", workload.Options{Seed: 2, Requests: 200, Rate: 0.01})
	rep := evaluate(t, Config{Workload: w, Replicas: 1, KVTokens: replica.Unlimited, Page: 2})
	if math.Abs(rep.HitRatio-rep.IdealHitRatio) > 1e-3 {
		t.Errorf("hit %.4f, ideal %.4f", rep.HitRatio, rep.IdealHitRatio)
	}
}

func TestConfigFaultsAreNamed(t *testing.T) {
	w := generated(t, "reasoning", workload.Options{Requests: 1})
	for name, cfg := range map[string]Config{
		"no workload": {}, "replicas": {Workload: w, Replicas: 65}, "peers": {Workload: w, Peers: -1},
		"delay": {Workload: w, LoadDelay: math.NaN()}, "policy": {Workload: w, Policy: "best"},
		"slow": {Workload: w, Slow: []float64{0}},
	} {
		if _, err := Evaluate(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
