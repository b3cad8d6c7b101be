package simulation

import (
	"slices"
	"testing"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// Traps that a policy may fall into, each with what springs it. The third one,
// sums of contexts, is policy.TestTrap3SharedBlocksAreNotSummed.

// A cost that the whole fleet shares (a mean of waiting counts) times the own
// prefill locks a hot prefix to its first holders: 33-57 s there. The minimum
// must not, at any load.
func TestTrap1AHotPrefixIsNotLockedToItsFirstHolders(t *testing.T) {
	w := generated(t, "few_prefixes", workload.Options{Seed: 2, Requests: 1500})
	for _, speedup := range []float64{1, 3.2} {
		rep := evaluate(t, Config{Workload: w, Peers: 8, Page: 250, LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05, Speedup: speedup, Seed: 2})
		t.Logf("speed-up %v: %.0f ms, %v", speedup, rep.TTFT.Mean, rep.PerReplica)
		if rep.TTFT.Mean > 500 || slices.Min(rep.PerReplica) == 0 {
			t.Errorf("speed-up %v: %.0f ms, requests %v", speedup, rep.TTFT.Mean, rep.PerReplica)
		}
	}
}

// Registers that are released only at the first token say "everything waits"
// during a whole prefill: without credit for progress TTFT is worse.
func TestTrap2WaitingWorkShrinksWhileItIsComputed(t *testing.T) {
	w := generated(t, "zipf", workload.Options{Seed: 1, Requests: 2500})
	for i := range w.Requests { // long enough to be waited for
		r := &w.Requests[i]
		r.Prompt[0].Tokens *= 4
		r.Tokens += 3 * r.Prompt[0].Tokens / 4
	}
	cfg := Config{Workload: w, Peers: 4, Page: 64, Prefill: true, LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05, Load: 0.5, Seed: 1}
	credited := evaluate(t, cfg)
	cfg.Routing = routing(func(p *policy.Config) { p.TTFT.ProgressFloor = 1 })
	blind := evaluate(t, cfg)
	t.Logf("with progress %.0f ms, without %.0f ms", credited.TTFT.Mean, blind.TTFT.Mean)
	if blind.TTFT.Mean < 1.05*credited.TTFT.Mean {
		t.Errorf("without progress %.0f ms, with it %.0f ms: no worse", blind.TTFT.Mean, credited.TTFT.Mean)
	}
}

// A deterministic second key (the fewest streams) makes all peers pick the
// same replica while views are late, unless unseen work is poured on it.
func TestTrap4FewestStreamsDoNotHerd(t *testing.T) {
	w := generated(t, "zipf", workload.Options{Seed: 1, Requests: 2500})
	cfg := Config{Workload: w, Peers: 16, Page: 64, LoadDelay: 0.5, DispatchDelay: -1, IndexDelay: 0.05, Load: 0.7, Seed: 1}
	poured := evaluate(t, cfg)
	cfg.Routing = routing(func(p *policy.Config) { p.TTFT.PourWeight = 0 })
	flat := evaluate(t, cfg)
	t.Logf("at 500 ms poured %.0f ms, not poured %.0f ms", poured.TTFT.Mean, flat.TTFT.Mean)
	if flat.TTFT.Mean < 1.05*poured.TTFT.Mean {
		t.Errorf("without pouring %.0f ms, with it %.0f ms: no worse", flat.TTFT.Mean, poured.TTFT.Mean)
	}
}

// Few enough replicas may lack a hot prefix for the guard to act, or too many:
// either way they must come to hold it, or the others herd for as long as it
// stays hot (seed 3: two of sixteen lacked it for seven seconds, 1.47 times
// random's time to the first token).
func TestTrap6AHotPrefixReachesThoseThatLackIt(t *testing.T) {
	w := generated(t, "hot", workload.Options{Seed: 3, Requests: 4000})
	cfg := Config{Workload: w, Peers: 64, Page: 200, Prefill: true, LoadDelay: 0.1, DispatchDelay: 0.1, IndexDelay: 0.05, Seed: 3}
	ours := evaluate(t, cfg)
	cfg.Policy = "random"
	random := evaluate(t, cfg)
	t.Logf("%.1f ms, random %.1f ms, requests %v", ours.TTFT.Mean, random.TTFT.Mean, ours.PerReplica)
	if ours.TTFT.Mean > 1.1*random.TTFT.Mean || slices.Min(ours.PerReplica) == 0 {
		t.Errorf("%.1f ms for random's %.1f ms, requests %v", ours.TTFT.Mean, random.TTFT.Mean, ours.PerReplica)
	}
}

// A prompt that everybody sends has two rendezvous replicas. What is seen of
// them ten seconds late swings with the delay, so a spill by that is taken by
// all or by none: 668 ms. What a peer is asked for itself is never late.
func TestTrap7AHotPrefixIsNotHashedToTwoReplicas(t *testing.T) {
	w := generated(t, "hot", workload.Options{Seed: 1, Requests: 6000})
	cfg := Config{Workload: w, Peers: 64, Page: 200, Prefill: true, LoadDelay: 10, DispatchDelay: 10, IndexDelay: 10, Speedup: 1.6, Seed: 1}
	ours := evaluate(t, cfg)
	cfg.Policy = "random"
	random := evaluate(t, cfg)
	t.Logf("%.1f ms, random %.1f ms, requests %v", ours.TTFT.Mean, random.TTFT.Mean, ours.PerReplica)
	if ours.TTFT.Mean > 1.35*random.TTFT.Mean {
		t.Errorf("%.1f ms for random's %.1f ms, requests %v", ours.TTFT.Mean, random.TTFT.Mean, ours.PerReplica)
	}
}

// used puts prompts that nobody asks for again before a workload, 4,000 tokens
// each, so that it meets caches as they are after hours: full.
func used(w *workload.Workload, prompts int) *workload.Workload {
	const tokens, gap = 4000, 0.05
	out := *w
	out.Requests = nil
	for i := range prompts {
		out.Requests = append(out.Requests, workload.Request{
			ID: i, At: float64(i) * gap, Session: -1, After: -1, Tokens: tokens, Output: 8,
			Prompt: []workload.Segment{{ID: 1<<40 + uint64(i), Tokens: tokens}}, Reply: 1<<41 + uint64(i),
		})
	}
	start := float64(prompts)*gap + 5
	for _, r := range w.Requests {
		r.ID += prompts
		r.At += start
		if r.After >= 0 {
			r.After += prompts
		}
		out.Requests = append(out.Requests, r)
	}
	out.Warm = start + w.Warm
	return &out
}

// A cache full of what nobody asks for has room for a hot prefix: what fullness
// costs a copy must not stop copies.
func TestFullCachesStillLetHotPrefixesSpread(t *testing.T) {
	w := used(generated(t, "few_prefixes", workload.Options{Seed: 1, Requests: 3000}), 200)
	mean := func(change func(*policy.TTFTConfig)) Report {
		return evaluate(t, Config{
			Workload: w, Peers: 16, Page: 250, KVTokens: 80_000, From: w.Warm, Seed: 1,
			LoadDelay: 0.01, DispatchDelay: 0.001, IndexDelay: 0.05,
			Routing: routing(func(p *policy.Config) { change(&p.TTFT) }),
		})
	}
	ours, stuck := mean(func(*policy.TTFTConfig) {}), mean(func(c *policy.TTFTConfig) { c.Spread = 0 })
	t.Logf("first token %.1f ms, end to end %.2f s; without spread %.1f ms, %.2f s", ours.TTFT.Mean, ours.E2E, stuck.TTFT.Mean, stuck.E2E)
	if ours.TTFT.Mean > 0.9*stuck.TTFT.Mean || ours.E2E > 0.85*stuck.E2E {
		t.Errorf("first token %.1f ms, end to end %.2f s; without spread %.1f ms, %.2f s", ours.TTFT.Mean, ours.E2E, stuck.TTFT.Mean, stuck.E2E)
	}
}
