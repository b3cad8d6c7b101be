package matrix

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
	"github.com/banyan-llm/banyan/simulation/chart"
	"github.com/banyan-llm/banyan/simulation/workload"
)

// The experiments with coding agents.
const (
	byCache = "agents, by cache"
	byLoad  = "agents, by load"
	byFleet = "agents, by fleet"
	byBurst = "bursts"
	byAway  = "agents, a replica lost and one added"
	byFork  = "forks, KV from the replica where they began"
	byHost  = "agents, KV from each other's host memory"
	byKnown = "agents, what peers know"
)

// The lines besides the policies' own names.
const (
	lineKnowing = "ttft, one router"      // that knows all at once
	linePinned  = "session, least loaded" // a session stays where its first request went
	lineSession = "session hash"
	lineCompute = "ttft, nothing fetched"
	lineWait    = "ttft, new conversations wait" // admission.working_set
)

// agentLines are the rows of every cell, ours first.
var agentLines = []string{
	policy.Default, lineWait, lineKnowing, linePinned, lineSession, "sticky", "consistent_hash", "cost", "cache_aware", "least_loaded",
	simulation.PooledCaches, simulation.Pooled,
}

// Limits of the runs with coding agents.
const (
	agentPage    = 512    // tokens a page: prompts are long
	agentWarm    = .2     // share of the arrivals that only fill the fleet with sessions
	agentHeads   = 48_000 // tokens of beginnings that a cache holds besides sessions
	longestAgent = 230_000
)

// PlanAgents lists the runs with coding agents: by the share of the live
// sessions that the caches hold, by load, by fleet; and bursts. Options.Trace
// takes the place of the generated sessions.
func PlanAgents(o Options) ([]Cell, error) { return o.plan((*planner).agents) }

func (p *planner) agents() {
	p.bursts()
	p.forks()
	base := p.agentFleet(8, 8)
	if p.err != nil {
		return
	}
	half := base.at(.7)
	live := p.liveTokens(half)
	room := func(share float64) int {
		return int(math.Max(share*live/float64(half.Replicas)+agentHeads, longestAgent))
	}
	last := 0
	for _, share := range []float64{.1, .5, 1, 1.5, 2, 3, 4} {
		cfg := half
		if cfg.KVTokens = room(share); cfg.KVTokens == last {
			continue // as small as the longest prompt lets it be
		}
		last = cfg.KVTokens
		p.rivals(byCache, 100*share, cfg, agentLines)
	}
	hosted := half
	hosted.KVTokens = room(.5)
	hosted.HostTokens, hosted.Fetch = 2*hosted.KVTokens, true
	p.rivals(byHost, 0, hosted, fetchLines)
	for _, load := range []float64{.5, .85, .95} {
		cfg := base.at(load)
		cfg.KVTokens = room(3)
		p.rivals(byLoad, 100*load, cfg, agentLines)
	}
	few := []string{policy.Default, lineKnowing, linePinned, lineSession, "sticky", simulation.Pooled}
	if p.err != nil {
		return
	}
	cfg, all := half, half.Workload.Requests
	first, end := all[0].At, all[len(all)-1].At
	cfg.KVTokens = room(3)
	p.known(cfg)
	cfg.Away = []simulation.Away{{Replica: 0, From: first + .4*(end-first), To: first + .6*(end-first)}}
	p.rivals(byAway, 0, cfg, few)
	for _, f := range [][2]int{{8, 1}, {8, 64}, {16, 16}, {64, 64}} {
		b := base
		if f[0] != 8 {
			if p.o.Trace != nil {
				continue // as many sessions as the trace has
			}
			b = p.agentFleet(f[0], f[1])
		}
		if p.err != nil {
			return
		}
		cfg := b.at(.7)
		cfg.Peers, cfg.KVTokens = f[1], room(3)
		p.rivals(byFleet, float64(1000*f[0]+f[1]), cfg, few)
	}
}

// agentFleet is a fleet with its workload and what it can serve.
type agentFleet struct {
	cfg   simulation.Config
	whole float64 // speedup at which the reference is busy all the time
}

func (p *planner) agentFleet(replicas, peers int) agentFleet {
	w := p.o.Trace
	if w == nil {
		var err error
		w, err = workload.Generate("coding", workload.Options{Seed: p.seed, Requests: int(1000 * float64(replicas) * p.o.Share), Replicas: replicas})
		p.fail("coding", err)
	}
	if p.err != nil {
		return agentFleet{}
	}
	f := agentFleet{cfg: p.config(w, policy.Default)}
	f.cfg.Replicas, f.cfg.Peers, f.cfg.Page = replicas, peers, agentPage
	first, last := w.Requests[0].At, w.Requests[len(w.Requests)-1].At
	f.cfg.From = first + agentWarm*(last-first)
	capacity, err := simulation.SessionCapacity(f.cfg)
	p.fail(w.Name, err)
	f.whole = capacity / w.Rate()
	if math.IsInf(w.Rate(), 0) || !(f.whole > 0) {
		p.fail(w.Name, fmt.Errorf("sessions begin all at once: no load can be aimed at"))
	}
	return f
}

// at is the fleet under a load.
func (f *agentFleet) at(load float64) simulation.Config {
	cfg := f.cfg
	cfg.Speedup = load * f.whole
	return cfg
}

// liveTokens is how many tokens the sessions under way have, on average, where
// nobody waits.
func (p *planner) liveTokens(cfg simulation.Config) float64 {
	cfg.Policy = simulation.Pooled
	rep, err := simulation.Evaluate(cfg)
	p.fail(cfg.Workload.Name, err)
	return rep.LiveTokens
}

// rivals adds a cell for every line.
func (p *planner) rivals(experiment string, x float64, cfg simulation.Config, lines []string) {
	for _, line := range lines {
		c := cfg
		switch line {
		case lineKnowing:
			c.Policy, c.Peers, c.LoadDelay, c.DispatchDelay, c.IndexDelay = policy.Default, 1, 0, 0, 0
		case linePinned:
			c.Policy, c.Pin = "least_loaded", true
		case lineCompute:
			c.Policy, c.Fetch = policy.Default, false
		case lineWait:
			c.Policy, c.WorkingSet = policy.Default, .8
		case lineSession:
			routing := policy.DefaultConfig()
			routing.Hash.LoadFactor = 1000 // unbounded
			c.Policy, c.Routing = "consistent_hash", &routing
		default:
			c.Policy = line
		}
		p.add(experiment, line, x, c)
	}
}

// known adds the default policy as it is and with a piece of its knowledge taken
// away: what each of them is worth.
func (p *planner) known(cfg simulation.Config) {
	for _, k := range []struct {
		line string
		less func(*simulation.Config)
	}{
		{policy.Default, func(*simulation.Config) {}},
		{"without the engines' KV events", func(c *simulation.Config) { c.IndexDelay, c.PredictFor = never, never }},
		{"without predictions", func(c *simulation.Config) { c.PredictFor = -1 }},
		{"without both: nothing known of caches", func(c *simulation.Config) { c.IndexDelay, c.PredictFor = never, -1 }},
		{"without what other peers send", func(c *simulation.Config) { c.LoadDelay, c.DispatchDelay, c.ViewAge = never, never, dispatchDelay }},
		{"without session names", func(c *simulation.Config) { c.Nameless = true }},
		{simulation.Pooled, func(c *simulation.Config) { c.Policy = simulation.Pooled }},
	} {
		c := cfg
		c.Policy = policy.Default
		k.less(&c)
		p.add(byKnown, k.line, 0, c)
	}
}

// bursts sends requests that come together to a fleet that is idle but for
// them: how soon they are answered is how well they are spread.
func (p *planner) bursts() {
	for _, b := range []struct {
		size, peers int
		within      float64
	}{
		{12, 16, .0003},
		{12, 16, .001},
		{12, 16, .005},
		{12, 16, .03},
		{2, 16, .001},
		{43, 16, .001},
		{100, 16, .001},
		{12, 2, .001},
		{12, 64, .001},
	} {
		w, err := workload.Bursts(workload.Burst{
			Size: b.size, Within: b.within, Bursts: max(int(60*p.o.Share), 2), Gap: 3, Head: 4000, Own: 1500, Output: 64,
			Warm: true, Replicas: 16, Seed: p.seed,
		})
		p.fail("bursts", err)
		if p.err != nil {
			return
		}
		cfg := p.config(w, policy.Default)
		cfg.Peers = b.peers
		w.Name = fmt.Sprintf("%s, %d peers", w.Name, b.peers)
		p.rivals(byBurst, 0, cfg, []string{policy.Default, lineKnowing, "sticky", "cost", "least_loaded", "random", simulation.Pooled})
	}
}

// fetchLines are the rows where replicas fetch from each other: whatever policy
// chooses, who lacks much is told whom to fetch from.
var fetchLines = []string{policy.Default, lineCompute, lineWait, linePinned, lineSession, "sticky", "cost", "least_loaded", simulation.Pooled}

// forks sends sessions of 40 k tokens that fork into 43 subagents (llm-d's
// published case) to a fleet that is idle but for them, at several speeds of the
// link of whoever hands out.
func (p *planner) forks() {
	for _, perToken := range []float64{1e-5, 5e-6, 1.5e-6} {
		w, err := workload.Bursts(workload.Burst{
			Size: 43, Within: .001, Bursts: max(int(16*p.o.Share), 2), Gap: 30, Head: 40_000, Own: 500, Output: 64,
			Warm: true, Replicas: 8, Seed: p.seed,
		})
		p.fail("forks", err)
		if p.err != nil {
			return
		}
		w.Name = fmt.Sprintf("43 subagents of 40 k tokens, %g us to fetch a token", 1e6*perToken)
		cfg := p.config(w, policy.Default)
		routing := policy.DefaultConfig()
		routing.Tiers.Peer = perToken
		cfg.Peers, cfg.HostTokens, cfg.Fetch, cfg.Routing = 4, 2_000_000, true, &routing
		p.rivals(byFork, 0, cfg, slices.DeleteFunc(slices.Clone(fetchLines), func(line string) bool { return line == linePinned || line == lineSession || line == lineWait }))
	}
}

// AgentSample is the sessions of the first runs with coding agents.
func AgentSample(cells []Cell) *workload.Workload {
	for i := range cells {
		if cells[i].Experiment == byCache {
			return cells[i].Config.Workload
		}
	}
	return &workload.Workload{}
}

// agentFigure is one figure of coding agents as published and as generated.
type agentFigure struct {
	What            string
	Published, Here float64
}

// agentFigures compares the sessions of a workload with what AgentX tells of
// real ones.
func agentFigures(w *workload.Workload) []agentFigure {
	var in, out, pauses, kids []float64
	turns, forked := map[int]int{}, map[int]map[int]int{}
	for i := range w.Requests {
		r := &w.Requests[i]
		in, out = append(in, float64(r.Tokens)), append(out, float64(r.Output))
		if r.Lineage == 0 {
			turns[r.Session]++
		} else if r.Turn == 0 {
			if forked[r.Lineage] == nil {
				forked[r.Lineage] = map[int]int{}
			}
			forked[r.Lineage][r.After]++
		}
		pauses = append(pauses, r.Think)
	}
	lengths := make([]float64, 0, len(turns))
	for _, n := range turns {
		lengths = append(lengths, float64(n))
	}
	for _, at := range forked {
		for _, n := range at {
			kids = append(kids, float64(n))
		}
	}
	return []agentFigure{
		{"turns of a session, median", 43, median(lengths)},
		{"tokens in, median", 142_000, median(in)},
		{"tokens out, median", 444, median(out)},
		{"share of the tokens in that was there before", .95, w.IdealHit()},
		{"share of the sessions that fork", .44, float64(len(forked)) / float64(max(len(turns), 1))},
		{"subagents of a fork, median", 4, median(kids)},
		{"longest pause, s", 10, slices.Max(append(pauses, 0))},
	}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// WriteAgents prints the runs with coding agents as Markdown tables: what the
// sessions look like, and a table a cell with the fastest policy marked.
func (b *Book) WriteAgents(w io.Writer, sample *workload.Workload) error {
	p := &pen{w: w}
	if sample.Told != "" {
		p.f("%s\n\n", sample.Told)
	}
	p.f("| sessions | published (AgentX) | here |\n|---|---|---|\n")
	for _, f := range agentFigures(sample) {
		p.f("| %s | %g | %.4g |\n", f.What, f.Published, f.Here)
	}
	p.f("\nAgentX, vLLM, real agents on GPUs: \"all load-balancing policies underperformed simple session-aware sticky routing\".\n")
	last := ""
	for i := range b.Results {
		r := &b.Results[i]
		if title := agentTitle(r); title != last {
			last = title
			p.f("\n### %s\n\n| policy | over pooled | TTFT mean | p90 | p99 | forks mean | p90 | sessions | cached | computed again |\n|---|---|---|---|---|---|---|---|---|---|\n", title)
		}
		mark := ""
		if r.Experiment != byKnown && b.first(r) {
			mark = "**"
		}
		ref := b.at(r.Experiment, r.Group, simulation.Pooled, r.X)
		s := &r.Report
		p.f("| %s%s%s | %.2f | %s | %s | %s | %s | %s | %s | %.1f %% | %.1f M |\n", mark, r.Line, mark, s.TTFT.Mean/ref.TTFT.Mean,
			secondsText(s.TTFT.Mean/1000), secondsText(s.TTFT.P90/1000), secondsText(s.TTFT.P99/1000), dashed(s.Forks.Mean), dashed(s.Forks.P90),
			secondsText(s.SessionE2E), 100*s.HitRatio, float64(s.Again)/1e6)
	}
	return p.err
}

// dashed writes milliseconds, or a dash for none.
func dashed(ms float64) string {
	if ms == 0 {
		return "–"
	}
	return secondsText(ms / 1000)
}

// pen writes until something fails.
type pen struct {
	w   io.Writer
	err error
}

func (p *pen) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// first reports whether no policy of the cell, what cannot be built left out,
// has a lower mean TTFT.
func (b *Book) first(r *Result) bool {
	if unreal(r.Line) {
		return false
	}
	for _, o := range b.of(r.Experiment) {
		if o.Group == r.Group && o.X == r.X && !unreal(o.Line) && o.Report.TTFT.Mean < r.Report.TTFT.Mean {
			return false
		}
	}
	return true
}

// unreal reports whether a line is a reference.
func unreal(line string) bool {
	return line == simulation.Pooled || line == simulation.PooledCaches || line == lineKnowing
}

func agentTitle(r *Result) string {
	switch r.Experiment {
	case byCache:
		return fmt.Sprintf("%s: caches hold %.0f %% of the live sessions' tokens, load .7, %d replicas, %d peers", r.Group, r.X, r.Report.Replicas, 8)
	case byLoad:
		return fmt.Sprintf("%s: load %.2f, caches of three times the live sessions at .7, %d replicas, 8 peers", r.Group, r.X/100, r.Report.Replicas)
	case byFleet:
		return fmt.Sprintf("%s: %d replicas, %d peers, load .7, caches of three times the live sessions", r.Group, int(r.X)/1000, int(r.X)%1000)
	}
	switch r.Experiment {
	case byKnown:
		return fmt.Sprintf("%s: what each piece of knowledge is worth; caches of three times the live sessions, load .7, %d replicas, 8 peers", r.Group, r.Report.Replicas)
	case byFork:
		return "forks: " + r.Group + ", 8 replicas, 4 peers"
	case byHost:
		return fmt.Sprintf("%s: caches hold half the live sessions' tokens, host memory twice as much, load .7, %d replicas, 8 peers; fetched from each other", r.Group, r.Report.Replicas)
	}
	if r.Experiment == byAway {
		return fmt.Sprintf("%s: one of %d replicas killed after 40 %% of the arrivals, an empty one added after 60 %%, load .7, 8 peers, caches of three times the live sessions", r.Group, r.Report.Replicas)
	}
	return "bursts: " + r.Group
}

// AgentFigures are the plots of the runs with coding agents.
func (b *Book) AgentFigures() []Figure {
	plot := func(file, title, experiment, x string) Figure {
		f := Figure{File: file, Title: title, Plot: chart.Plot{
			Title: title, XName: x, YName: "mean TTFT", LogY: true, YText: secondsText,
			Lines: b.lines(experiment, meanSeconds, func(r *Result) string {
				return fmt.Sprintf("%s at %.0f %%", secondsText(meanSeconds(&r.Report)), r.X)
			}),
		}}
		for i := range f.Plot.Lines {
			f.Plot.Lines[i].Colour = chart.Colour(i % 8)
			f.Plot.Lines[i].Dashed = i >= 8
			f.Plot.Lines[i].Bold = f.Plot.Lines[i].Name == nameOf(policy.Default)
		}
		return f
	}
	return []Figure{
		plot("agents-by-cache", "Coding agents by the share of live sessions that caches hold", byCache, "share of live tokens, %"),
		plot("agents-by-load", "Coding agents by load", byLoad, "load, % of what the reference serves"),
	}
}
