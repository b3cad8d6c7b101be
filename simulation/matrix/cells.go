package matrix

import (
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// The lines of the published b2b runs besides the policies' own names: llm-d's
// scorers with the weights and in the deployment of the published report.
const (
	lineRandom      = "random"
	lineScored      = "llm-d load"
	lineApproximate = "llm-d approximate"
	linePrecise     = "llm-d precise"
)

// Bytes a token of the published prompts. Those are random tokens as text:
// 6,000 and 8,000 of them, tokenized again by the engine, are 5 % more.
const (
	bytesQwen3  = 6.15
	bytesLlama3 = 6.28
)

// tabled are the policies of the table by workload.
var tabled = []string{"random", "least_loaded", "consistent_hash", "cache_aware", policy.Default, simulation.Pooled}

// named runs the published workloads on the fleets they were published for.
func (p *planner) named() {
	p.published("b2b", 20000, 80, bytesQwen3, 1, weights(3, 2, 2))
	p.published("b2b37", 8000, 200, bytesLlama3, 2, weights(2, 1, 1))
	for _, n := range []struct {
		name     string
		requests int
	}{
		{"shared_prefix", 2048},
		{"few_prefixes", 3000},
		{"burst", 1600},
		{"multi_turn", 6000},
		{"agents", 2000},
		{"reasoning", 400},
	} {
		w := p.workload(n.name, n.requests)
		if p.err != nil {
			return
		}
		for _, name := range tabled {
			p.add(byName, name, 0, p.config(w, name))
		}
	}
}

// published runs a ladder under the four schedulers it was published for, one
// router each, and under a mesh of sixteen. llm-d's know load only from the
// engines' metrics, read every 50 ms. The approximate one remembers 31,250
// blocks of 64 bytes a replica. The precise one hears events and expects
// nothing of what it sent.
func (p *planner) published(name string, requests, page int, bytes, prefix float64, precise *policy.Config) {
	w := p.workload(name, requests)
	if p.err != nil {
		return
	}
	run := func(line, name string, change func(*simulation.Config)) {
		cfg := p.config(w, name)
		cfg.Page = page
		if change != nil {
			cfg.Peers, cfg.ScrapedOnly, cfg.Scrape = 1, true, 0.05
			change(&cfg)
		}
		p.add(byName, line, 0, cfg)
	}
	run(lineRandom, "random", func(*simulation.Config) {})
	run(lineScored, "weighted", func(c *simulation.Config) { c.Routing = weights(0, 1, 1) })
	run(lineApproximate, "weighted", func(c *simulation.Config) {
		c.Routing = weights(prefix, 1, 1)
		approximate(c, 31250, 64/bytes)
	})
	run(linePrecise, "weighted", func(c *simulation.Config) { c.Routing, c.PredictFor = precise, -1 })
	run(policy.Default, policy.Default, nil)
	run(simulation.Pooled, simulation.Pooled, nil)
}

// approximate makes a run one of llm-d's approximate scorer, which never hears
// of a cache: it remembers the given blocks of text, each of so many tokens, a
// replica and looks at the first 256 of a prompt, whose share it scores.
func approximate(c *simulation.Config, blocks int, tokens float64) {
	c.IndexDelay, c.PredictFor = never, -1
	c.Remember = int(float64(blocks)*tokens) / c.Page
	c.MatchPages = int(256*tokens) / c.Page
	whole := c.Workload.Requests[0].Tokens
	c.Routing.Weighted.Prefix *= float64(whole) / float64(min(whole, c.MatchPages*c.Page))
}

// weights are llm-d's of its prefix, queue and KV scorers.
func weights(prefix, queue, kv float64) *policy.Config {
	c := policy.DefaultConfig()
	c.Weighted.Prefix, c.Weighted.Queue, c.Weighted.KV = prefix, queue, kv
	return &c
}

// The lines of the experiment by delay.
const (
	lineOne   = "one router"
	lineFlush = "flushed at once"
	line10ms  = "10 ms"
	line100ms = "100 ms"
)

// delays compares sixteen peers with one that knows everything at once.
func (p *planner) delays(chat *workload.Workload) {
	run := func(cfg simulation.Config) {
		for _, d := range []struct {
			line           string
			peers          int
			load, dispatch float64
		}{{lineOne, 1, 0, 0}, {lineFlush, peers, loadDelay, dispatchDelay}, {line10ms, peers, .01, .01}, {line100ms, peers, .1, .1}} {
			cfg.Peers, cfg.LoadDelay, cfg.DispatchDelay = d.peers, d.load, d.dispatch
			p.add(byDelay, d.line, 0, cfg)
		}
	}
	cfg := p.config(chat, policy.Default)
	cfg.Speedup = chatSpeedup
	run(cfg)
	for _, name := range []string{"agents", "zipf"} {
		w := p.workload(name, 2000)
		if p.err != nil {
			return
		}
		cfg := p.config(w, policy.Default)
		if name == "zipf" {
			cfg.Speedup = .7 * p.speedup(cfg)
		}
		run(cfg)
	}
	for _, g := range givenTraces {
		if cfg, ok := p.given(g, false); ok {
			cfg.Speedup = .7 * p.speedup(cfg)
			run(cfg)
		}
	}
}

// The lines of the traps.
const (
	lineStale  = "10 s stale"
	lineHashed = "10 s stale, session hash"
)

// traps runs what caught other rules: one hot prefix for 64 peers, the longest
// prefix alone, and a partition.
func (p *planner) traps(chat *workload.Workload) {
	hot := p.workload("hot", 6000)
	if p.err != nil {
		return
	}
	for _, load := range []float64{1, 1.6} { // about .5 and .8 of the fleet
		for _, delay := range []float64{.01, .1} {
			for _, name := range []string{policy.Default, "random", "least_loaded"} {
				cfg := p.config(hot, name)
				cfg.Peers, cfg.Page, cfg.Prefill, cfg.Speedup = 64, 200, true, load
				cfg.LoadDelay, cfg.DispatchDelay = delay, delay
				p.add(byTrap, name, 1000*delay+load, cfg)
			}
		}
	}
	alone := p.config(hot, "prefix")
	alone.Page, alone.Prefill = 200, true
	p.add(byTrap, "prefix", 0, alone)

	stale := func(cfg simulation.Config) {
		cfg.LoadDelay, cfg.DispatchDelay, cfg.IndexDelay = 10, 10, 10
		p.add(byTrap, lineStale, 0, cfg)
		c := policy.DefaultConfig()
		c.Hash.LoadFactor = 1000 // unbounded
		cfg.Policy, cfg.Routing = "consistent_hash", &c
		p.add(byTrap, lineHashed, 0, cfg)
	}
	cfg := p.config(chat, policy.Default)
	cfg.Speedup = chatSpeedup
	stale(cfg)
	for _, g := range givenTraces {
		if cfg, ok := p.given(g, false); ok {
			cfg.Speedup = .7 * p.speedup(cfg)
			stale(cfg)
		}
	}
}

// The lines of the experiment with prefill replicas.
const (
	lineWhole     = "no split, 4 replicas"
	lineThreshold = "fixed threshold"
	lineAware     = "queue-aware"
)

// split runs one prefill and three decode replicas.
func (p *planner) split() {
	w, err := workload.Generate("zipf", workload.Options{Seed: p.seed, Requests: int(2500 * p.o.Share), Replicas: 4})
	p.fail("zipf", err)
	if p.err != nil {
		return
	}
	for _, speedup := range []float64{1, 2} {
		for _, l := range [][2]string{{lineWhole, ""}, {lineThreshold, policy.DisaggThreshold}, {lineAware, policy.DisaggConditional}} {
			line, mode := l[0], l[1]
			cfg := p.config(w, policy.Default)
			cfg.Peers, cfg.Speedup = 4, speedup
			if mode != "" {
				routing := policy.DefaultConfig()
				routing.Disagg.Mode = mode
				cfg.PrefillReplicas, cfg.Routing = 1, &routing
			}
			p.add(bySplit, line, speedup, cfg)
		}
	}
}

// givenTrace is a recorded trace with the page it is evaluated in.
type givenTrace struct {
	name  string
	page  int
	tuned bool // the default policy's constants were chosen on it
}

var givenTraces = []givenTrace{{"mooncake_conversation", 512, true}, {"mooncake_synthetic", 512, true}, {"agent_sessions", 64, false}}

// given is the configuration of a recorded trace, if it is there.
func (p *planner) given(g givenTrace, prefill bool) (simulation.Config, bool) {
	if p.o.Given == nil || p.err != nil {
		return simulation.Config{}, false
	}
	w, err := p.o.Given(g.name, p.seed)
	p.fail(g.name, err)
	if w == nil || err != nil {
		return simulation.Config{}, false
	}
	cfg := p.config(w, policy.Default)
	cfg.Replicas, cfg.Page, cfg.Prefill = peers, g.page, prefill
	return cfg, true
}

// bounded are the policies compared on the recorded traces.
var bounded = []string{simulation.Pooled, policy.Default, "sticky", "cost", "cache_aware", "weighted", "consistent_hash", "least_loaded"}

// bounds loads the recorded traces, aggregated and as a prefill pool.
func (p *planner) bounds() {
	for _, g := range givenTraces {
		for _, prefill := range []bool{false, true} {
			cfg, ok := p.given(g, prefill)
			if !ok {
				continue
			}
			whole := p.speedup(cfg)
			for _, load := range []float64{.5, .7, .85} {
				for _, name := range bounded {
					cfg.Policy, cfg.Speedup = name, load*whole
					x := 100 * load
					if prefill {
						x = -x
					}
					p.add(byBound, name, x, cfg)
				}
			}
		}
	}
}
