package matrix

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
)

// byAblation is the default policy with a term taken away or a weight changed.
const byAblation = "ablation"

// change is one line of the ablation.
type change struct {
	line  string
	terms func(*policy.TTFTConfig)
	rates func(r policy.Rates, peer, replica int) policy.Rates
	learn bool
}

// scaled makes every rate so many times as long.
func scaled(r policy.Rates, by float64) policy.Rates {
	r.A, r.B, r.CQ, r.T0 = r.A*by, r.B*by, r.CQ*by, r.T0*by
	return r
}

// noisy is a belief of one peer about one replica, log-normal with sigma 0.4.
func noisy(r policy.Rates, peer, replica int) policy.Rates {
	rnd := rand.New(rand.NewPCG(uint64(peer), uint64(replica)))
	return scaled(r, math.Exp(0.4*rnd.NormFloat64()))
}

var changes = []change{
	{line: policy.Default},
	{line: "- progress", terms: func(c *policy.TTFTConfig) { c.ProgressFloor = 1 }},
	{line: "- n_k", terms: func(c *policy.TTFTConfig) { c.WaitWeight = 0 }},
	{line: "- n_min", terms: func(c *policy.TTFTConfig) { c.MinWaitWeight = 0 }},
	{line: "- both n", terms: func(c *policy.TTFTConfig) { c.WaitWeight, c.MinWaitWeight = 0, 0 }},
	{line: "- stream term", terms: func(c *policy.TTFTConfig) { c.StreamWeight = 0 }},
	{line: "- pour", terms: func(c *policy.TTFTConfig) { c.PourWeight = 0 }},
	{line: "- young and guard", terms: func(c *policy.TTFTConfig) { c.YoungCap, c.GuardGap = 1, 0 }},
	{line: "- holder's slack", terms: func(c *policy.TTFTConfig) { c.HolderSteps = 0 }},
	{line: "- room", terms: func(c *policy.TTFTConfig) { c.RoomWeight = 0 }},
	{line: "- live", terms: func(c *policy.TTFTConfig) { c.LiveWeight = 0 }},
	{line: "- spread", terms: func(c *policy.TTFTConfig) { c.Spread = 0 }},
	{line: "all off", terms: func(c *policy.TTFTConfig) {
		c.ProgressFloor, c.WaitWeight, c.MinWaitWeight, c.StreamWeight, c.PourWeight = 1, 0, 0, 0, 0
		c.YoungCap, c.GuardGap, c.HolderSteps, c.Spread, c.RoomWeight, c.LiveWeight = 1, 0, 0, 0, 0, 0
	}},
	{line: "one linear rate", rates: func(r policy.Rates, _, _ int) policy.Rates {
		r.A, r.B, r.CQ = 0, 1/r.PeakRate(), 0
		return r
	}},
	{line: "rates x0.5", rates: func(r policy.Rates, _, _ int) policy.Rates { return scaled(r, 0.5) }},
	{line: "rates x2", rates: func(r policy.Rates, _, _ int) policy.Rates { return scaled(r, 2) }},
	{line: "rate noise .4", rates: noisy},
	{line: "rate noise .4, learned", rates: noisy, learn: true},
	{line: "n_k weight .5", terms: func(c *policy.TTFTConfig) { c.WaitWeight = .5 }},
	{line: "n_k weight 2", terms: func(c *policy.TTFTConfig) { c.WaitWeight = 2 }},
	{line: "stream weight .25", terms: func(c *policy.TTFTConfig) { c.StreamWeight = .25 }},
	{line: "stream weight 1", terms: func(c *policy.TTFTConfig) { c.StreamWeight = 1 }},
	{line: "spread .3", terms: func(c *policy.TTFTConfig) { c.Spread = .3 }},
}

// The columns of the ablation besides the geometric mean.
const (
	colFew  = "few_prefixes"
	colHot  = "hot"
	colChat = "multi_turn"
)

// PlanAblation lists the runs of the ablation: every change on the Mooncake
// windows (without them on generated traffic) at three loads, aggregated and
// as a prefill pool, and on three traps.
func PlanAblation(o Options) ([]Cell, error) { return o.plan((*planner).ablation) }

func (p *planner) ablation() {
	var bases []simulation.Config
	for _, g := range givenTraces {
		for _, prefill := range []bool{false, true} {
			if cfg, ok := p.given(g, prefill); ok && g.tuned {
				bases = append(bases, cfg)
			}
		}
	}
	if len(bases) == 0 {
		for _, name := range []string{"zipf", "few_prefixes"} {
			for _, prefill := range []bool{false, true} {
				cfg := p.config(p.workload(name, 2000), "")
				cfg.Prefill = prefill
				bases = append(bases, cfg)
			}
		}
	}
	if p.err != nil {
		return
	}
	for _, cfg := range bases {
		whole := p.speedup(cfg)
		for _, load := range []float64{.5, .7, .85} {
			x := 100 * load
			if cfg.Prefill {
				x = -x
			}
			cfg.Speedup, cfg.LoadDelay, cfg.DispatchDelay = load*whole, .01, .01
			cfg.Policy = simulation.Pooled
			p.add(byAblation, simulation.Pooled, x, cfg)
			p.changed(x, cfg)
		}
	}
	p.trapped()
}

// trapped adds the traps, at x 1.
func (p *planner) trapped() {
	few, hot, chat := p.workload(colFew, 3000), p.workload(colHot, 4000), p.workload(colChat, 3000)
	if p.err != nil {
		return
	}
	p.changed(1, p.config(few, ""))
	cfg := p.config(hot, "")
	cfg.Peers, cfg.Page, cfg.Prefill, cfg.Speedup, cfg.LoadDelay, cfg.DispatchDelay = 64, 200, true, 1.6, .1, .1
	p.changed(1, cfg)
	cfg = p.config(chat, "")
	cfg.Speedup = chatSpeedup
	p.changed(1, cfg)
}

// changed adds every change of one configuration.
func (p *planner) changed(x float64, cfg simulation.Config) {
	for _, ch := range changes {
		routing := policy.DefaultConfig()
		if ch.terms != nil {
			ch.terms(&routing.TTFT)
		}
		cfg.Policy, cfg.Routing, cfg.Rates, cfg.Learn = policy.Default, &routing, ch.rates, ch.learn
		p.add(byAblation, ch.line, x, cfg)
	}
}

// WriteAblation prints a line a change: the geometric mean of mean TTFT over
// the pooled reference's, and the traps.
func (b *Book) WriteAblation(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-24s %8s %9s %14s %12s %14s %12s\n", "CHANGE", "GEO", "E2E", "FEW PREFIXES", "HOT, 100 MS", "CHAT", "SAME REPLICA"); err != nil {
		return err
	}
	for _, ch := range changes {
		ttft, e2e := b.ablated(ch.line)
		trap := func(group string) string {
			if r := b.at(byAblation, group, ch.line, 1); r != nil {
				return secondsText(meanSeconds(r))
			}
			return secondsText(math.NaN())
		}
		same := math.NaN()
		if r := b.at(byAblation, colChat, ch.line, 1); r != nil {
			same = r.SameReplica
		}
		if _, err := fmt.Fprintf(w, "%-24s %8.3f %9.3f %14s %12s %14s %12.3f\n", ch.line, ttft, e2e, trap(colFew), trap(colHot), trap(colChat), same); err != nil {
			return err
		}
	}
	return nil
}

// ablated is the geometric mean, over the reference, of mean TTFT and of mean
// time to the last token.
func (b *Book) ablated(line string) (ttft, e2e float64) {
	n := 0.0
	for _, r := range b.of(byAblation) {
		if ref := b.at(byAblation, r.Group, simulation.Pooled, r.X); r.Line == line && ref != nil {
			ttft, e2e, n = ttft+math.Log(r.Report.TTFT.Mean/ref.TTFT.Mean), e2e+math.Log(r.Report.E2E/ref.E2E), n+1
		}
	}
	return math.Exp(ttft / n), math.Exp(e2e / n)
}
