package simulation

import (
	"math"
	"testing"

	"github.com/banyan-llm/banyan/router/pick"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation/replica"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// forks is a session of 40 k tokens that forks into 43 subagents, again and
// again, in a fleet that is idle but for it.
func forks(t *testing.T, seed uint64) Config {
	t.Helper()
	w, err := workload.Bursts(workload.Burst{
		Size: 43, Within: .001, Bursts: 8, Gap: 30, Head: 40_000, Own: 500, Output: 64, Warm: true, Replicas: 8, Seed: seed,
	})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Workload: w, Policy: policy.Default, Replicas: 8, Peers: 4, From: w.Warm, Seed: seed,
		LoadDelay: .01, DispatchDelay: .001, IndexDelay: .005, HostTokens: 2_000_000,
	}
}

// TestForksFetchFromWhereTheyBegan: what a fork shares lies at one replica. The
// others fetch it instead of computing it, and the subagents' first tokens come
// sooner: the more so the faster the link of that one replica is.
func TestForksFetchFromWhereTheyBegan(t *testing.T) {
	for _, c := range []struct {
		perToken, most float64 // seconds; of the p90 without fetching
	}{{1e-5, .85}, {5e-6, .5}, {1.5e-6, .4}} {
		cfg := forks(t, 31)
		routing := policy.DefaultConfig()
		routing.Tiers.Peer = c.perToken
		cfg.Routing = &routing
		without := evaluate(t, cfg)
		cfg.Fetch = true
		with := evaluate(t, cfg)
		t.Logf("%g us a token, p90 of a fork of 43 from 40 k tokens: %.0f ms computed, %.0f ms fetched (%d tokens); mean %.0f and %.0f ms",
			1e6*c.perToken, without.TTFT.P90, with.TTFT.P90, with.Fetched, without.TTFT.Mean, with.TTFT.Mean)
		if without.Fetched != 0 || with.Fetched == 0 || with.TTFT.P90 > c.most*without.TTFT.P90 || with.Completed != with.Requests {
			t.Errorf("%g us a token: p90 %.0f ms, without fetching %.0f ms; %d tokens fetched", 1e6*c.perToken, with.TTFT.P90, without.TTFT.P90, with.Fetched)
		}
		if len(without.Fetches) != 0 || with.Fetches[pick.FetchCame] == 0 || with.Fetches[pick.FetchUnknown] != 0 {
			t.Errorf("%g us a token: outcomes %v, %v without fetching", 1e6*c.perToken, with.Fetches, without.Fetches)
		}
	}
}

// TestALostSourceCostsAComputation: replicas that others fetch from are killed;
// every request is answered.
func TestALostSourceCostsAComputation(t *testing.T) {
	cfg := forks(t, 32)
	cfg.Fetch = true
	at := cfg.Workload.Requests[0].At
	last := cfg.Workload.Requests[len(cfg.Workload.Requests)-1].At
	for k := range 4 {
		from := at + (last-at)*float64(k+1)/6
		cfg.Away = append(cfg.Away, Away{Replica: k, From: from, To: from + 5})
	}
	if rep := evaluate(t, cfg); rep.Completed != rep.Requests || rep.Retried == 0 && rep.Fetched == 0 {
		t.Errorf("%d of %d answered, %d retried, %d tokens fetched", rep.Completed, rep.Requests, rep.Retried, rep.Fetched)
	}
}

// TestHostMemoryOutlivesTheGPU: where caches are too small for the sessions under
// way, host memory keeps them; and what it keeps at another replica is fetched.
// One draw says little there: the geometric mean of four is held.
func TestHostMemoryOutlivesTheGPU(t *testing.T) {
	cfg, pooled := codingFleet(t, 21, 2000, .5)
	mean := func(edit func(*Config)) float64 {
		sum := 0.0
		for seed := range uint64(4) {
			c := cfg
			c.Seed = 100 + seed
			edit(&c)
			sum += math.Log(evaluate(t, c).TTFT.Mean / pooled)
		}
		return math.Exp(sum / 4)
	}
	bare := mean(func(*Config) {})
	hosted := mean(func(c *Config) { c.HostTokens = 2 * c.KVTokens })
	fetched := mean(func(c *Config) { c.HostTokens, c.Fetch = 2*c.KVTokens, true })
	t.Logf("over pooled: caches of half the live sessions %.2f, with host memory of twice as much %.2f, fetched from each other's %.2f", bare, hosted, fetched)
	if hosted >= bare || fetched >= .8*hosted {
		t.Errorf("over pooled %.2f, with host memory %.2f, fetched from it %.2f", bare, hosted, fetched)
	}
}

// TestMemoryForgetsWhatWasUsedLeast: the least recently used keys go, and are
// told.
func TestMemoryForgetsWhatWasUsedLeast(t *testing.T) {
	m := newMemory(3)
	if gone := m.put([]uint64{1, 2, 3}); gone != nil {
		t.Fatalf("%v went out of an empty memory", gone)
	}
	if n := m.depth([]uint64{1, 2, 9}); n != 2 {
		t.Fatalf("%d leading keys, want 2", n)
	}
	if gone := m.put([]uint64{4, 5}); len(gone) != 2 || gone[0] != 3 || gone[1] != 1 {
		t.Errorf("%v went, want 3 and then 1", gone)
	}
	if n := m.depth([]uint64{2, 4, 5}); n != 3 || len(m.at) != 3 {
		t.Errorf("%d leading keys of %d, want 3 of 3", n, len(m.at))
	}
	h := newHosts(&Config{Replicas: 2, Page: 16, HostTokens: 16})
	h.tell(0, 1, []replica.KVEvent{{Kind: replica.Stored, Keys: []uint64{7}}, {Kind: replica.Stored, Keys: []uint64{8}}})
	h.index.advance(1)
	h.index.match(1, 0, []uint64{8}, h.deep[0], h.deep[1])
	if h.deep[0][1] != 1 || h.memories[1].at[7] != nil {
		t.Errorf("peers know of %v, the memory holds %v", h.deep[0], h.memories[1].at)
	}
	if h.lose(1); h.memories[1].depth([]uint64{8}) != 0 || h.index.held[1] != 0 {
		t.Error("a lost replica keeps its host memory")
	}
}
