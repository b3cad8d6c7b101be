package matrix

import (
	"fmt"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
	"github.com/banyan-llm/banyan/simulation/chart"
)

// figures of a scheduler as published for a whole ladder: seconds and tokens a
// second; 0: not told.
type figures struct{ mean, p90, tokens float64 }

// published are the summaries of llm-d's benchmark reports for the 73 % and
// the 37 % workload (llm-d-kv-cache-manager, benchmarking/).
var published = map[string]map[string]figures{
	"b2b": {
		lineRandom:      {45.281, 92.551, 4428.7},
		lineScored:      {46.987, 94.865, 4266.4},
		lineApproximate: {13.316, 31.083, 6944.4},
		linePrecise:     {0.298, 0.542, 8730.0},
	},
	"b2b37": {
		lineRandom:      {42.011, 84.623, 2895.4},
		lineScored:      {41.058, 78.303, 3018.3},
		lineApproximate: {1.549, 7.536, 5096.2},
		linePrecise:     {0.193, 0.275, 5650.0},
	},
}

// step is one published point: requests a second and mean TTFT in seconds.
type step struct{ rate, mean float64 }

// publishedSteps are the same reports' means by step.
var publishedSteps = map[string]map[string][]step{
	"b2b": {
		lineRandom:      {{3, .622}, {10, .826}, {15, 1.278}, {20, 25.073}, {22, 28.185}, {25, 30.689}, {30, 32.212}, {35, 34.043}, {40, 54.196}, {43, 53.247}, {46, 53.572}, {49, 56.13}, {52, 56.035}, {55, 54.844}, {57, 56.803}, {60, 57.426}},
		lineApproximate: {{3, .3}, {10, .271}, {15, .232}, {20, .329}, {22, .407}, {25, .37}, {30, .373}, {35, 2.78}, {40, 13.16}, {43, 16.941}, {46, 18.081}, {49, 19.111}, {52, 21.94}, {55, 22.327}, {57, 23.423}, {60, 24.281}},
		linePrecise:     {{3, .291}, {10, .335}, {15, .249}, {20, .363}, {22, .3}, {25, .303}, {30, .296}, {35, .275}, {40, .269}, {43, .281}, {46, .293}, {49, .311}, {52, .288}, {55, .308}, {57, .319}, {60, .283}},
	},
	"b2b37": {
		lineRandom:      {{3, .852}, {4, 9.475}, {5, 15.998}, {6, 30.389}, {8, 39.117}, {10, 41.48}, {12, 53.513}, {15, 61.425}, {20, 94.952}},
		lineApproximate: {{3, .207}, {4, .236}, {5, .307}, {6, .254}, {8, .399}, {10, .466}, {12, .42}, {15, 1.294}, {20, 7.609}},
		linePrecise:     {{3, .144}, {4, .182}, {5, .188}, {6, .195}, {8, .199}, {10, .202}, {12, .202}, {15, .21}, {20, .201}},
	},
}

// ladder plots a published run by step, the published means dashed.
func (b *Book) ladder(group, title string) Figure {
	f := Figure{File: group + "-by-rate", Title: title, Plot: chart.Plot{
		Title: group + ", mean TTFT by request rate", XName: "requests a second", YName: "mean TTFT", LogY: true, YText: secondsText,
	}}
	for _, line := range []struct {
		name   string
		colour chart.Colour
	}{{lineRandom, chart.Yellow}, {lineScored, chart.Red}, {lineApproximate, chart.Orange}, {linePrecise, chart.Green}, {policy.Default, chart.Blue}} {
		r := b.at(byName, group, line.name, 0)
		if r == nil {
			continue
		}
		l := chart.Line{Name: nameOf(line.name), Colour: line.colour, Bold: line.colour == chart.Blue}
		for _, s := range r.Stages {
			y := s.TTFT.Mean / 1000
			l.Points = append(l.Points, chart.Point{X: s.Rate, Y: y, Note: fmt.Sprintf("%s: %s at %.0f requests a second", l.Name, secondsText(y), s.Rate)})
		}
		f.Plot.Lines = append(f.Plot.Lines, l)
		if line.name == lineScored { // lies on random, here and there
			continue
		}
		l = chart.Line{Name: "published: " + line.name, Colour: line.colour, Dashed: true}
		for _, s := range publishedSteps[group][line.name] {
			l.Points = append(l.Points, chart.Point{X: s.rate, Y: s.mean, Note: fmt.Sprintf("%s: %s at %.0f requests a second", l.Name, secondsText(s.mean), s.rate)})
		}
		if l.Points != nil {
			f.Plot.Lines = append(f.Plot.Lines, l)
		}
	}
	f.Says = b.ladderSays(group)
	return f
}

func (b *Book) ladderSays(group string) string {
	says := "Dashed: what llm-d measured on H100s; driven as here, nothing fitted."
	if mesh, one := b.at(byName, group, policy.Default, 0), b.at(byName, group, linePrecise, 0); whole(mesh) && one != nil {
		says += fmt.Sprintf(" A mesh of 16 takes %s over all, one router with every event %s; gateway, tokenizing and network, which are most of the published %s, take no time here.",
			secondsText(meanSeconds(mesh)), secondsText(meanSeconds(one)), secondsText(published[group][linePrecise].mean))
	}
	return says
}

// Beside is what was published for a row of a table.
type Beside struct{ Mean, P90, Tokens string }

// beside is nil if nothing was, or if only a part of the workload ran.
func beside(r *Result) *Beside {
	p, ok := published[r.Group][r.Line]
	if !ok || !whole(&r.Report) {
		return nil
	}
	return &Beside{secondsText(p.mean), secondsText(p.p90), grouped(int(p.tokens + .5))}
}

// whole tells a complete ladder from a share of it, which is not to be
// compared with what was published.
func whole(r *simulation.Report) bool {
	all := map[string]int{"b2b": 16, "b2b37": 9}
	return r != nil && len(r.Stages) == all[r.Trace]
}
