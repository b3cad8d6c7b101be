package matrix

import (
	"fmt"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// The experiments.
const (
	byRate  = "rate"  // TTFT by rate, a line a policy
	byPeers = "peers" // hit and TTFT by number of router peers
	byAge   = "age"   // TTFT by the age of what peers know of each other
	byName  = "named" // workloads by name, a table row a policy
)

// Cell is one evaluation of the matrix.
type Cell struct {
	Experiment string
	Line       string  // which line of its plot, or row of its table
	X          float64 // where on the plot
	Config     simulation.Config
}

// Name tells people which cell is running.
func (c *Cell) Name() string {
	return fmt.Sprintf("%s: %s, %s", c.Experiment, c.Config.Workload.Name, c.Line)
}

// Options say how much is run.
type Options struct {
	Seed uint64
	// Share of the requests of every workload, at most 1; 0: 1. Less is quicker
	// and rougher.
	Share float64
	// Trace replaces the generated workload under the plots by rate and by age;
	// nil: zipf.
	Trace *workload.Workload
}

// Peers and delays that hold where an experiment does not vary them: what the
// live mesh reaches.
const (
	peers         = 16
	loadDelay     = 0.010
	dispatchDelay = 0.001
	indexDelay    = 0.050
)

// never is a delay longer than every run.
const never = 900_000

// Plan lists the cells. It runs the pooled reference once to find what the
// fleet can serve; that takes about a second.
func Plan(o Options) ([]Cell, error) {
	if o.Share <= 0 || o.Share > 1 {
		o.Share = 1
	}
	p := &planner{o: o}
	main := o.Trace
	if main == nil {
		main = p.workload("zipf", 5000)
	}
	chat := p.workload("multi_turn", 3000)
	if p.err == nil {
		p.rates(main)
		p.fleet(chat)
		p.ages(main)
		p.named()
	}
	return p.cells, p.err
}

// planner collects cells; the first fault ends it.
type planner struct {
	o     Options
	cells []Cell
	err   error
}

func (p *planner) workload(name string, requests int) *workload.Workload {
	w, err := workload.Generate(name, workload.Options{Seed: p.o.Seed, Requests: int(float64(requests) * p.o.Share)})
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("plan: %w", err)
	}
	return w
}

// config is what most cells begin with.
func (p *planner) config(w *workload.Workload, name string) simulation.Config {
	return simulation.Config{
		Workload: w, Policy: name, Peers: peers, From: w.Warm, Seed: p.o.Seed,
		LoadDelay: loadDelay, DispatchDelay: dispatchDelay, IndexDelay: indexDelay,
	}
}

// speedup is the factor on a workload's arrivals that makes them this share
// of what the pooled reference serves.
func (p *planner) speedup(w *workload.Workload) float64 {
	capacity, err := simulation.Capacity(p.config(w, simulation.Pooled))
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("plan %s: %w", w.Name, err)
	}
	return capacity / w.Rate()
}

func (p *planner) add(experiment, line string, x float64, cfg simulation.Config) {
	p.cells = append(p.cells, Cell{experiment, line, x, cfg})
}

// compared are the policies of the plots, ours last but the reference.
var compared = []string{"round_robin", "least_loaded", "consistent_hash", "cache_aware", "weighted", policy.Default, simulation.Pooled}

// rates loads a fleet more and more.
func (p *planner) rates(w *workload.Workload) {
	whole := p.speedup(w)
	for _, name := range compared {
		for _, load := range []float64{.2, .35, .5, .65, .8, .9} {
			cfg := p.config(w, name)
			cfg.Speedup = load * whole
			p.add(byRate, name, cfg.Speedup*w.Rate(), cfg)
		}
	}
}

// The lines of the experiment by peers.
const (
	lineMesh  = "banyan mesh"
	lineBlind = "own load only"
	lineAlone = "nothing shared"
)

// chatSpeedup is how much faster than its own rate sessions of multi_turn
// begin. Their think times stay, so no share of a capacity can be aimed at.
const chatSpeedup = 4

// fleet serves the same traffic with more and more router peers: as a mesh,
// as routers that all hear the engines but know only their own load, and as
// routers that share nothing and know only what they sent where.
func (p *planner) fleet(w *workload.Workload) {
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64} {
		cfg := p.config(w, policy.Default)
		cfg.Peers, cfg.Speedup = n, chatSpeedup
		p.add(byPeers, lineMesh, float64(n), cfg)
		cfg.LoadDelay, cfg.DispatchDelay, cfg.ViewAge = never, never, dispatchDelay
		p.add(byPeers, lineBlind, float64(n), cfg)
		cfg.Policy, cfg.IndexDelay, cfg.PredictFor = "cache_aware", never, 600
		p.add(byPeers, lineAlone, float64(n), cfg)
	}
}

// The lines of the experiment by age.
const (
	lineLoad  = "load view late"
	lineIndex = "index view late"
)

// ages makes what peers know of each other's load, or of the caches, late.
func (p *planner) ages(w *workload.Workload) {
	whole := p.speedup(w)
	for _, age := range []float64{.001, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10} {
		cfg := p.config(w, policy.Default)
		cfg.Speedup = .7 * whole
		cfg.LoadDelay, cfg.DispatchDelay, cfg.IndexDelay = age, age, 0
		p.add(byAge, lineLoad, age, cfg)
		cfg.LoadDelay, cfg.DispatchDelay, cfg.IndexDelay = 0, 0, age
		p.add(byAge, lineIndex, age, cfg)
	}
	cfg := p.config(w, policy.Default)
	cfg.Speedup, cfg.LoadDelay, cfg.DispatchDelay, cfg.IndexDelay = .7*whole, 0, 0, 0
	p.add(byAge, lineLoad, 0, cfg)
}

// tabled are the policies of the table by workload.
var tabled = []string{"random", "least_loaded", "cache_aware", policy.Default, simulation.Pooled}

// named runs the published workloads on the fleets they were published for.
func (p *planner) named() {
	for _, n := range []struct {
		name     string
		requests int
	}{
		{"b2b", 20000},
		{"b2b37", 8000},
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
