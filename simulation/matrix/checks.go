package matrix

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
)

// Check is one thing that must hold and whether it does.
type Check struct {
	What, Want, Got string
	Tolerance       string
	Ran, Holds      bool
}

// Verdict is the check in a word.
func (c *Check) Verdict() string {
	switch {
	case !c.Ran:
		return "not run"
	case c.Holds:
		return "holds"
	}
	return "does not hold"
}

// Checks compares the results with what was published or promised. What has no
// results did not run.
func (b *Book) Checks() []Check {
	var out []Check
	out = append(out, b.ideal())
	for _, group := range []string{"b2b", "b2b37"} {
		for i := range schedulers {
			out = append(out, b.scheduler(group, i))
		}
		out = append(out, b.order(group), b.exact(group))
	}
	out = append(out, b.knee(), b.sharedPrefix(), b.prefixAlone(), b.parity(), b.hotSpot(), b.everyReplica(), b.disaggregated())
	out = append(out, b.delay(lineFlush, 1.05), b.delay(line10ms, 1.10), b.delay(line100ms, math.Inf(1)), b.geo())
	out = append(out, b.followUps(), b.stale(), b.herd())
	return append(out, b.fastest()...)
}

// within reports whether two figures lie within a factor of each other.
func within(a, b float64) bool { return a <= 1.5*b && b <= 1.5*a }

// schedulers are the lines of a published ladder.
var schedulers = []string{lineRandom, lineScored, lineApproximate, linePrecise}

// ladderRows are the reports of a ladder's schedulers; nil unless it ran whole.
func (b *Book) ladderRows(group string) []*simulation.Report {
	var rows []*simulation.Report
	for _, line := range schedulers {
		r := b.at(byName, group, line, 0)
		if !whole(r) {
			return nil
		}
		rows = append(rows, r)
	}
	return rows
}

// scheduler compares one of a ladder's with what was published for it. Precise
// waits are not compared: they are gateway, tokenizing and network.
func (b *Book) scheduler(group string, i int) Check {
	line, precise := schedulers[i], i == len(schedulers)-1
	p := published[group][line]
	told := func(mean, p90, tokens float64) string {
		if precise {
			return grouped(int(tokens+.5)) + " tokens/s"
		}
		return fmt.Sprintf("%s / %s, %s tokens/s", secondsText(mean), secondsText(p90), grouped(int(tokens+.5)))
	}
	c := Check{What: group + ", " + line + ": TTFT mean / p90, throughput", Want: told(p.mean, p.p90, p.tokens), Tolerance: "×1.5"}
	if precise {
		c.What = group + ", " + line + ": throughput"
	}
	if rows := b.ladderRows(group); rows != nil {
		mean, p90, tokens := meanSeconds(rows[i]), rows[i].TTFT.P90/1000, rows[i].OutputPerSecond
		c.Ran, c.Got = true, told(mean, p90, tokens)
		c.Holds = within(tokens, p.tokens) && (precise || within(mean, p.mean) && within(p90, p.p90))
	}
	return c
}

// order looks at throughput. Random and load are one class: published 4 to 12 %
// apart, in either order.
func (b *Book) order(group string) Check {
	c := Check{What: group + ": order by throughput", Want: "random and load < approximate < precise", Tolerance: "exact"}
	if rows := b.ladderRows(group); rows != nil {
		var tokens []float64
		for _, r := range rows {
			tokens = append(tokens, r.OutputPerSecond)
		}
		c.Ran, c.Holds = true, math.Max(tokens[0], tokens[1]) < tokens[2] && tokens[2] < tokens[3]
		c.Got = fmt.Sprintf("%s and %s, %s, %s", grouped(int(tokens[0]+.5)), grouped(int(tokens[1]+.5)), grouped(int(tokens[2]+.5)), grouped(int(tokens[3]+.5)))
	}
	return c
}

func (b *Book) exact(group string) Check {
	p := published[group][linePrecise]
	c := Check{What: group + ": mean TTFT of llm-d precise and of ttft in a mesh of 16", Want: secondsText(p.mean) + ", published for precise", Tolerance: "≤"}
	if rows, mesh := b.ladderRows(group), b.at(byName, group, policy.Default, 0); rows != nil && whole(mesh) {
		one, many := meanSeconds(rows[3]), meanSeconds(mesh)
		c.Ran, c.Holds = true, one <= p.mean && many <= p.mean
		c.Got = secondsText(one) + ", " + secondsText(many)
	}
	return c
}

func (b *Book) knee() Check {
	c := Check{
		What: "b2b: mean TTFT at 15, 20, 30 requests a second, random; precise and a mesh of 16 at any of them", Tolerance: "×1.5; ≤",
		Want: ".88, 18.1, 24.6 s (llm-d's guide, round robin; its report 1.28, 25.1, 32.2); .206 s",
	}
	random, rows := b.at(byName, "b2b", lineRandom, 0), []*simulation.Report{b.at(byName, "b2b", linePrecise, 0), b.at(byName, "b2b", policy.Default, 0)}
	if !whole(random) || !whole(rows[0]) || !whole(rows[1]) {
		return c
	}
	c.Ran, c.Holds = true, true
	var got []string
	steps := []float64{15, 20, 30}
	for _, s := range random.Stages {
		if i := slices.Index(steps, s.Rate); i >= 0 {
			got = append(got, secondsText(s.TTFT.Mean/1000))
			c.Holds = c.Holds && within(s.TTFT.Mean/1000, []float64{.88, 18.1, 24.6}[i])
		}
	}
	c.Got = strings.Join(got, ", ")
	for _, r := range rows {
		most := 0.0
		for _, s := range r.Stages {
			if slices.Contains(steps, s.Rate) {
				most = math.Max(most, s.TTFT.Mean/1000)
			}
		}
		c.Got += "; " + secondsText(most)
		c.Holds = c.Holds && most <= .206
	}
	return c
}

func (b *Book) sharedPrefix() Check {
	c := Check{What: "shared_prefix: hit and throughput, random → ttft", Want: "20 → 75 %; 1.9×", Tolerance: "±10 points; 1.5 to 2.3×"}
	blind, ours := b.at(byName, "shared_prefix", "random", 0), b.at(byName, "shared_prefix", policy.Default, 0)
	if blind != nil && ours != nil {
		gain := ours.OutputPerSecond / blind.OutputPerSecond
		c.Ran = true
		c.Holds = math.Abs(blind.HitRatio-.2) <= .1 && math.Abs(ours.HitRatio-.75) <= .1 && gain >= 1.5 && gain <= 2.3
		c.Got = fmt.Sprintf("%.0f → %.0f %%; %.2f×", hitPercent(blind), hitPercent(ours), gain)
	}
	return c
}

// against compares the default policy with another one on a workload.
func (b *Book) against(group, other string) (ours, theirs *simulation.Report, ok bool) {
	ours, theirs = b.at(byName, group, policy.Default, 0), b.at(byName, group, other, 0)
	return ours, theirs, ours != nil && theirs != nil
}

func (b *Book) parity() Check {
	c := Check{What: "reasoning: TTFT and end to end against least_loaded", Want: "1×, 1×", Tolerance: "≤ 1.05×"}
	if ours, least, ok := b.against("reasoning", "least_loaded"); ok {
		ttft, e2e := ours.TTFT.Mean/least.TTFT.Mean, ours.E2E/least.E2E
		c.Ran, c.Holds, c.Got = true, ttft <= 1.05 && e2e <= 1.05, fmt.Sprintf("%.2f×, %.2f×", ttft, e2e)
	}
	return c
}

func (b *Book) hotSpot() Check {
	c := Check{What: "few_prefixes: mean TTFT against least_loaded", Want: "1×", Tolerance: "≤"}
	if ours, least, ok := b.against("few_prefixes", "least_loaded"); ok {
		x := ours.TTFT.Mean / least.TTFT.Mean
		c.Ran, c.Holds, c.Got = true, x <= 1, fmt.Sprintf("%.2f×", x)
	}
	return c
}

func (b *Book) everyReplica() Check {
	c := Check{What: "few_prefixes: requests at the replica with the fewest", Want: "all are used", Tolerance: "> 0"}
	if ours := b.at(byName, "few_prefixes", policy.Default, 0); ours != nil {
		least := slices.Min(ours.PerReplica)
		c.Ran, c.Holds, c.Got = true, least > 0, fmt.Sprintf("%d of %d", least, ours.Requests)
	}
	return c
}

func (b *Book) prefixAlone() Check {
	c := Check{What: "the longest prefix alone, one hot prefix: busiest replica over the mean", Want: "→ 16, the number of replicas", Tolerance: "> 8"}
	if r := b.at(byTrap, "hot", "prefix", 0); r != nil {
		c.Ran, c.Holds, c.Got = true, r.MaxOverMean > 8, fmt.Sprintf("%.1f", r.MaxOverMean)
	}
	return c
}

func (b *Book) followUps() Check {
	c := Check{What: "multi_turn, 8 peers: follow-ups cached, on the same replica", Want: ".90, .97 (SMG: mesh .633, its central index .87)", Tolerance: "≥"}
	if r := b.at(byPeers, "multi_turn", lineMesh, 8); r != nil {
		c.Ran, c.Holds = true, r.FollowUpCached >= .9 && r.SameReplica >= .97
		c.Got = fmt.Sprintf("%.3f, %.3f", r.FollowUpCached, r.SameReplica)
	}
	return c
}
