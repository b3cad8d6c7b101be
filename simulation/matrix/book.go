package matrix

import (
	"fmt"
	"math"
	"slices"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
	"github.com/banyan-llm/banyan/simulation/chart"
)

// Result is a cell with what came of it, over all seeds.
type Result struct {
	Experiment string            `json:"experiment"`
	Group      string            `json:"workload"`
	Line       string            `json:"line"`
	X          float64           `json:"x"`
	Seeds      int               `json:"seeds"`
	Low        float64           `json:"ttft_mean_low_ms"` // of the seeds, mean TTFT
	High       float64           `json:"ttft_mean_high_ms"`
	Report     simulation.Report `json:"report"` // of the first seed, its figures the means over all
}

// Book is everything the matrix tells.
type Book struct {
	Seed    uint64   `json:"seed"`
	Results []Result `json:"results"`
}

// NewBook binds reports to their cells, reports[i] is of cells[i], and takes
// the seeds of a cell together.
func NewBook(seed uint64, cells []Cell, reports []simulation.Report) *Book {
	type key struct {
		experiment, group, line string
		x                       float64
	}
	b, at, all := &Book{Seed: seed}, make(map[key]int), make([][]simulation.Report, 0, len(cells))
	for i := range cells {
		c := &cells[i]
		k := key{c.Experiment, c.Group, c.Line, c.X}
		j, ok := at[k]
		if !ok {
			j = len(all)
			at[k] = j
			all = append(all, nil)
			b.Results = append(b.Results, Result{Experiment: c.Experiment, Group: c.Group, Line: c.Line, X: c.X})
		}
		all[j] = append(all[j], reports[i])
	}
	for j := range b.Results {
		b.Results[j].take(all[j])
	}
	return b
}

// of picks the results of one experiment.
func (b *Book) of(experiment string) []Result {
	var out []Result
	for i := range b.Results {
		if b.Results[i].Experiment == experiment {
			out = append(out, b.Results[i])
		}
	}
	return out
}

// at finds one report; nil if there is none. group "": of any workload.
func (b *Book) at(experiment, group, line string, x float64) *simulation.Report {
	for i := range b.Results {
		r := &b.Results[i]
		if r.Experiment == experiment && r.Line == line && r.X == x && (group == "" || r.Group == group) {
			return &r.Report
		}
	}
	return nil
}

// Figure is a plot with the words around it.
type Figure struct {
	File  string // name of its SVG file
	Title string
	Says  string
	Plot  chart.Plot
}

// colours keep a line's colour the same in every plot.
var colours = map[string]chart.Colour{
	policy.Default: chart.Blue, lineMesh: chart.Blue, lineLoad: chart.Blue,
	"round_robin": chart.Yellow, "least_loaded": chart.Red, "consistent_hash": chart.Violet,
	"cache_aware": chart.Orange, lineAlone: chart.Orange, "weighted": chart.Green, lineBlind: chart.Green,
	lineIndex: chart.Orange, simulation.Pooled: chart.Grey,
}

// names of lines, where the policy's own name would not say enough.
var names = map[string]string{policy.Default: "ttft (default)", simulation.Pooled: "pooled (reference)"}

func nameOf(line string) string {
	if n := names[line]; n != "" {
		return n
	}
	return line
}

// lines makes a plot's lines of an experiment.
func (b *Book) lines(experiment string, y func(*simulation.Report) float64, note func(*Result) string) []chart.Line {
	var out []chart.Line
	for _, r := range b.of(experiment) {
		if r.X == 0 {
			continue
		}
		name := nameOf(r.Line)
		i := slices.IndexFunc(out, func(l chart.Line) bool { return l.Name == name })
		if i < 0 {
			i = len(out)
			colour := colours[r.Line]
			out = append(out, chart.Line{Name: name, Colour: colour, Bold: colour == chart.Blue})
		}
		out[i].Points = append(out[i].Points, chart.Point{X: r.X, Y: y(&r.Report), Note: name + ": " + note(&r)})
	}
	return out
}

func meanSeconds(r *simulation.Report) float64 { return r.TTFT.Mean / 1000 }
func tailSeconds(r *simulation.Report) float64 { return r.TTFT.P99 / 1000 }
func hitPercent(r *simulation.Report) float64  { return 100 * r.HitRatio }

// Figures are the plots in the order they are read.
func (b *Book) Figures() []Figure {
	return []Figure{
		b.rateFigure("ttft-by-rate", "Time to first token as the fleet fills up", "mean TTFT", meanSeconds),
		b.rateFigure("tail-by-rate", "The slowest in a hundred", "TTFT p99", tailSeconds),
		b.hitByRate(),
		b.hitByPeers(),
		b.ttftByPeers(),
		b.staleness(),
		b.ladder("b2b", "The published ladder, step by step"),
		b.ladder("b2b37", "… and the one for a 70B model"),
	}
}

// trace names the workload of an experiment.
func (b *Book) trace(experiment string) string {
	for i := range b.Results {
		if r := &b.Results[i]; r.Experiment == experiment {
			return fmt.Sprintf("%s, %d replicas", r.Report.Trace, r.Report.Replicas)
		}
	}
	return ""
}

func (b *Book) rateFigure(file, title, what string, y func(*simulation.Report) float64) Figure {
	return Figure{
		File: file, Title: title, Says: b.trace(byRate) + ", 16 router peers. " + b.againstPooled(y),
		Plot: chart.Plot{
			Title: title, XName: "load, % of what the reference serves", YName: what, LogY: true, YText: secondsText,
			Lines: b.lines(byRate, y, func(r *Result) string {
				return fmt.Sprintf("%s at %.0f %% load", secondsText(y(&r.Report)), r.X)
			}),
		},
	}
}

// againstPooled compares the policies with the reference over all rates, by
// geometric mean.
func (b *Book) againstPooled(y func(*simulation.Report) float64) string {
	over := func(line string) float64 {
		sum, n := 0.0, 0.0
		for _, r := range b.of(byRate) {
			if ref := b.at(byRate, "", simulation.Pooled, r.X); r.Line == line && ref != nil {
				sum, n = sum+math.Log(y(&r.Report)/y(ref)), n+1
			}
		}
		return math.Exp(sum / n)
	}
	return fmt.Sprintf("Over all rates ttft takes %.2f× the reference, weighted %.2f×, cache_aware %.2f×, session hashing %.2f×, round robin %.2f×.",
		over(policy.Default), over("weighted"), over("cache_aware"), over("consistent_hash"), over("round_robin"))
}

func (b *Book) hitByRate() Figure {
	return Figure{
		File: "hit-by-rate", Title: "Prompt tokens found in caches",
		Says: "The same runs. The highest hit rate is not the goal: a policy that only chases it waits behind the replica that has it.",
		Plot: chart.Plot{
			Title: "Hit rate by load", XName: "load, % of what the reference serves", YName: "cached prompt tokens", Zero: true, YText: percentText,
			Lines: b.lines(byRate, hitPercent, func(r *Result) string {
				return fmt.Sprintf("%.1f %% at %.0f %% load", hitPercent(&r.Report), r.X)
			}),
		},
	}
}

var peerTicks = []float64{1, 2, 4, 8, 16, 32, 64}

func (b *Book) hitByPeers() Figure {
	at := func(line string) float64 {
		if r := b.at(byPeers, "", line, 16); r != nil {
			return hitPercent(r)
		}
		return math.NaN()
	}
	return Figure{
		File: "hit-by-peers", Title: "More routers, the same knowledge",
		Says: fmt.Sprintf("%s. At 16 routers the mesh finds %.1f %% of all prompt tokens cached; routers that share nothing and remember only what they sent where, %.1f %%.",
			b.trace(byPeers), at(lineMesh), at(lineAlone)),
		Plot: chart.Plot{
			Title: "Hit rate by number of router peers", XName: "router peers", YName: "cached prompt tokens", LogX: true, XTicks: peerTicks, Zero: true, YText: percentText,
			Lines: b.lines(byPeers, hitPercent, func(r *Result) string {
				return fmt.Sprintf("%.1f %% with %.0f peers", hitPercent(&r.Report), r.X)
			}),
		},
	}
}

func (b *Book) ttftByPeers() Figure {
	says := ""
	one, many, blind := b.at(byPeers, "", lineMesh, 1), b.at(byPeers, "", lineMesh, 64), b.at(byPeers, "", lineBlind, 64)
	if one != nil && many != nil && blind != nil {
		says = fmt.Sprintf("From 1 to 64 routers the mesh's mean goes from %s to %s. 64 routers that hear every engine but know only their own load take %s.",
			secondsText(meanSeconds(one)), secondsText(meanSeconds(many)), secondsText(meanSeconds(blind)))
	}
	return Figure{
		File: "ttft-by-peers", Title: "… and the same speed", Says: says,
		Plot: chart.Plot{
			Title: "TTFT by number of router peers", XName: "router peers", YName: "mean TTFT", LogX: true, LogY: true, XTicks: peerTicks, YText: secondsText,
			Lines: b.lines(byPeers, meanSeconds, func(r *Result) string {
				return fmt.Sprintf("%s with %.0f peers", secondsText(meanSeconds(&r.Report)), r.X)
			}),
		},
	}
}

func (b *Book) staleness() Figure {
	base := b.at(byAge, "", lineLoad, 0)
	over := func(r *simulation.Report) float64 {
		if base == nil {
			return math.NaN()
		}
		return r.TTFT.Mean / base.TTFT.Mean
	}
	return Figure{
		File: "staleness", Title: "What may be late, and what must not",
		Says: b.trace(byAge) + ", 16 router peers, 70 % load. Mean TTFT against views without delay. The live mesh flushes dispatches within 1 ms and the rest within 10.",
		Plot: chart.Plot{
			Title: "TTFT by the age of views", XName: "age of the view", YName: "mean TTFT, times fresh", LogX: true, LogY: true,
			XTicks: []float64{.001, .01, .1, 1, 10}, XText: secondsText, YText: func(v float64) string { return fmt.Sprintf("%.3g×", v) },
			Lines: b.lines(byAge, over, func(r *Result) string {
				return fmt.Sprintf("%.2f× at %s", over(&r.Report), secondsText(r.X))
			}),
		},
	}
}
