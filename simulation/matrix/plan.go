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
	byDelay = "delay" // sixteen peers at several delays against one that knows all
	byTrap  = "trap"  // what must not happen
	bySplit = "split" // one prefill and three decode replicas
	byBound = "bound" // the given traces: policies against the pooled reference
)

// Cell is one evaluation of the matrix.
type Cell struct {
	Experiment string
	Group      string  // the workload
	Line       string  // which line of its plot, or row of its table
	X          float64 // where on the plot
	Config     simulation.Config
}

// Name tells people which cell is running.
func (c *Cell) Name() string {
	return fmt.Sprintf("%s: %s, %s", c.Experiment, c.Group, c.Line)
}

// Options say how much is run.
type Options struct {
	Seed  uint64
	Seeds int // runs of every cell, workload and all, each from the next seed; 0: 1
	// Share of the requests of every workload, at most 1; 0: 1. Less is quicker
	// and rougher.
	Share float64
	// Trace replaces the generated workload under the plots by rate and by age;
	// nil: zipf.
	Trace *workload.Workload
	// Given reads a recorded trace by its published name, spread by seed; nil,
	// or nil for a name: it is not there and its cells are left out.
	Given func(name string, seed uint64) (*workload.Workload, error)
	// Checked leaves out what no check looks at.
	Checked bool
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

// Plan lists the cells. It runs the pooled reference once a workload and seed
// to find what the fleet can serve; that takes some seconds.
func Plan(o Options) ([]Cell, error) { return o.plan((*planner).plan) }

// plan collects what list adds for one seed after the other.
func (o Options) plan(list func(*planner)) ([]Cell, error) {
	if o.Share <= 0 || o.Share > 1 {
		o.Share = 1
	}
	var cells []Cell
	for i := range max(o.Seeds, 1) {
		p := &planner{o: o, seed: o.Seed + uint64(i), whole: make(map[served]float64)}
		list(p)
		if p.err != nil {
			return nil, p.err
		}
		cells = append(cells, p.cells...)
	}
	return cells, nil
}

// planner collects the cells of one seed; the first fault ends it.
type planner struct {
	o     Options
	seed  uint64
	cells []Cell
	whole map[served]float64 // speedups found
	err   error
}

// served is what a fleet's capacity depends on.
type served struct {
	workload string
	prefill  bool
}

func (p *planner) plan() {
	main := p.o.Trace
	if main == nil {
		main = p.workload("zipf", 5000)
	}
	chat := p.workload("multi_turn", 3000)
	if p.err != nil {
		return
	}
	if !p.o.Checked {
		p.rates(main)
		p.ages(main)
	}
	p.fleet(chat)
	p.named()
	p.delays(chat)
	p.traps(chat)
	p.split()
	p.bounds()
}

func (p *planner) workload(name string, requests int) *workload.Workload {
	w, err := workload.Generate(name, workload.Options{Seed: p.seed, Requests: int(float64(requests) * p.o.Share)})
	p.fail(name, err)
	return w
}

func (p *planner) fail(what string, err error) {
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("plan %s: %w", what, err)
	}
}

// config is what most cells begin with.
func (p *planner) config(w *workload.Workload, name string) simulation.Config {
	return simulation.Config{
		Workload: w, Policy: name, Peers: peers, From: w.Warm, Seed: p.seed,
		LoadDelay: loadDelay, DispatchDelay: dispatchDelay, IndexDelay: indexDelay,
	}
}

// speedup is the factor on a workload's arrivals that makes them this share
// of what the pooled reference serves.
func (p *planner) speedup(cfg simulation.Config) float64 {
	at := served{cfg.Workload.Name, cfg.Prefill}
	if _, ok := p.whole[at]; !ok {
		cfg.Policy = simulation.Pooled
		capacity, err := simulation.Capacity(cfg)
		p.fail(cfg.Workload.Name, err)
		p.whole[at] = capacity / cfg.Workload.Rate()
	}
	return p.whole[at]
}

func (p *planner) add(experiment, line string, x float64, cfg simulation.Config) {
	c := Cell{experiment, cfg.Workload.Name, line, x, cfg}
	if !p.o.Checked || c.checked() {
		p.cells = append(p.cells, c)
	}
}

// checked reports whether a check looks at the cell.
func (c *Cell) checked() bool {
	switch c.Experiment {
	case byPeers:
		return c.Line == lineMesh && c.X == 8
	case byName:
		return c.Line != simulation.Pooled
	case byBound:
		return c.Line == policy.Default || c.Line == simulation.Pooled
	}
	return true
}

// compared are the policies of the plots, ours last but the reference.
var compared = []string{"round_robin", "least_loaded", "consistent_hash", "cache_aware", "weighted", policy.Default, simulation.Pooled}

// rates loads a fleet more and more.
func (p *planner) rates(w *workload.Workload) {
	whole := p.speedup(p.config(w, ""))
	for _, name := range compared {
		for _, load := range []float64{.2, .35, .5, .65, .8, .9} {
			cfg := p.config(w, name)
			cfg.Speedup = load * whole
			p.add(byRate, name, 100*load, cfg)
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
	whole := p.speedup(p.config(w, ""))
	late := func(line string, x, load, index float64) {
		cfg := p.config(w, policy.Default)
		cfg.Speedup, cfg.LoadDelay, cfg.DispatchDelay, cfg.IndexDelay = .7*whole, load, load, index
		p.add(byAge, line, x, cfg)
	}
	late(lineLoad, 0, 0, 0)
	for _, age := range []float64{.001, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10} {
		late(lineLoad, age, age, 0)
		late(lineIndex, age, 0, age)
	}
}
