package matrix

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
)

// groups are the workloads of an experiment, in order.
func (b *Book) groups(experiment string) []string {
	var out []string
	for _, r := range b.of(experiment) {
		if !slices.Contains(out, r.Group) {
			out = append(out, r.Group)
		}
	}
	return out
}

// delay compares sixteen peers with one router that knows all at once.
func (b *Book) delay(line string, most float64) Check {
	c := Check{What: "16 peers, views " + line + ", against one router without delay", Want: "1×", Tolerance: fmt.Sprintf("≤ %.2f×", most), Holds: true}
	if math.IsInf(most, 1) {
		c.Want, c.Tolerance = "no policy tried stays below 1.04 to 1.45×", "reported"
	}
	var got []string
	for _, group := range b.groups(byDelay) {
		one, many := b.at(byDelay, group, lineOne, 0), b.at(byDelay, group, line, 0)
		if one == nil || many == nil {
			continue
		}
		x := many.TTFT.Mean / one.TTFT.Mean
		c.Ran, c.Holds = true, c.Holds && x <= most
		got = append(got, fmt.Sprintf("%s %.3f×", group, x))
	}
	c.Got = strings.Join(got, ", ")
	return c
}

// disaggregated compares the two ways to decide about prefill replicas.
func (b *Book) disaggregated() Check {
	c := Check{What: "one prefill, three decode replicas: mean TTFT, fixed threshold over queue-aware, at 1 and 2 times the rate", Want: "2 to 3× (simulated by others)", Tolerance: "> 1×", Holds: true}
	var got []string
	for _, x := range []float64{1, 2} {
		fixed, aware := b.at(bySplit, "zipf", lineThreshold, x), b.at(bySplit, "zipf", lineAware, x)
		if fixed == nil || aware == nil {
			continue
		}
		gain := fixed.TTFT.Mean / aware.TTFT.Mean
		c.Ran, c.Holds = true, c.Holds && gain > 1
		got = append(got, fmt.Sprintf("%.2f×", gain))
	}
	c.Got = strings.Join(got, ", ")
	return c
}

// herd is one hot prefix under 64 peers.
func (b *Book) herd() Check {
	c := Check{What: "one hot prefix, 64 peers, views 10 and 100 ms late: busiest replica over the mean; mean TTFT over random's", Want: "1.3; 1×", Tolerance: "≤; ≤ 1.05×", Holds: true}
	var got []string
	for _, r := range b.of(byTrap) {
		if r.Line != policy.Default || r.Group != "hot" {
			continue
		}
		random := b.at(byTrap, "hot", "random", r.X)
		if random == nil {
			continue
		}
		x := r.Report.TTFT.Mean / random.TTFT.Mean
		c.Ran, c.Holds = true, c.Holds && r.Report.MaxOverMean <= 1.3 && x <= 1.05
		got = append(got, fmt.Sprintf("load %.1f at %.0f ms %.2f; %.2f×", hotLoad(r.X), math.Floor(r.X/10)*10, r.Report.MaxOverMean, x))
	}
	c.Got = strings.Join(got, ", ")
	return c
}

// hotLoad is about the share of the fleet that the hot prefix takes.
func hotLoad(x float64) float64 { return (x - math.Floor(x/10)*10) / 2 }

// stale is a partition of ten seconds.
func (b *Book) stale() Check {
	c := Check{What: "views 10 s late: mean TTFT over session hashing's", Want: "never worse", Tolerance: "≤ 1.05× is even", Holds: true}
	var got []string
	for _, group := range b.groups(byTrap) {
		ours, hash := b.at(byTrap, group, lineStale, 0), b.at(byTrap, group, lineHashed, 0)
		if ours == nil || hash == nil {
			continue
		}
		x := ours.TTFT.Mean / hash.TTFT.Mean
		c.Ran, c.Holds = true, c.Holds && x <= 1.05
		got = append(got, fmt.Sprintf("%s %.2f×", group, x))
	}
	c.Got = strings.Join(got, ", ")
	return c
}

// lossBand is what counts as noise between two policies.
const lossBand = 1.02

// fastest looks, workload by workload, for another policy that is faster.
func (b *Book) fastest() []Check {
	var out []Check
	for _, group := range b.groups(byName) {
		c := Check{What: group + ": mean TTFT over the best other policy's", Want: "1×", Tolerance: fmt.Sprintf("≤ %.2f×", lossBand)}
		ours := b.at(byName, group, policy.Default, 0)
		best, who := math.Inf(1), ""
		for _, r := range b.of(byName) {
			if r.Group == group && r.Line != policy.Default && r.Line != simulation.Pooled && r.Report.TTFT.Mean < best {
				best, who = r.Report.TTFT.Mean, r.Line
			}
		}
		if ours != nil && who != "" {
			x := ours.TTFT.Mean / best
			c.Ran, c.Holds, c.Got = true, x <= lossBand, fmt.Sprintf("%.2f× (%s)", x, who)
		}
		out = append(out, c)
	}
	return out
}

// ideal is what one endless cache finds in the recorded traces.
func (b *Book) ideal() Check {
	want := map[string]float64{"mooncake_conversation": .3577, "mooncake_synthetic": .4536, "agent_sessions": .8949}
	c := Check{What: "recorded traces, endless cache: hit", Want: ".3577 conversation, .4536 synthetic, .8949 agents", Tolerance: "exact", Holds: true}
	var got []string
	for _, g := range givenTraces {
		if r := b.at(byBound, g.name, simulation.Pooled, 50); r != nil {
			c.Ran, c.Holds = true, c.Holds && math.Abs(r.IdealHitRatio-want[g.name]) < 5e-5
			got = append(got, fmt.Sprintf("%.4f", r.IdealHitRatio))
		}
	}
	c.Got = strings.Join(got, ", ")
	return c
}

// over is the geometric mean of a policy's mean TTFT over the reference's, on
// the recorded Mooncake windows; NaN if they did not run.
func (b *Book) over(line string) float64 {
	sum, n := 0.0, 0.0
	for _, g := range givenTraces {
		for _, r := range b.of(byBound) {
			if ref := b.at(byBound, r.Group, simulation.Pooled, r.X); g.tuned && r.Group == g.name && r.Line == line && ref != nil {
				sum, n = sum+math.Log(r.Report.TTFT.Mean/ref.TTFT.Mean), n+1
			}
		}
	}
	return math.Exp(sum / n)
}

func (b *Book) geo() Check {
	c := Check{What: "Mooncake windows, 16 replicas, loads .5/.7/.85, aggregated and prefill: geometric mean of TTFT over the reference", Want: "1.2", Tolerance: "≤"}
	if x := b.over(policy.Default); !math.IsNaN(x) {
		c.Ran, c.Holds = true, x <= 1.2
		var got []string
		for _, line := range bounded[1:] {
			if x := b.over(line); !math.IsNaN(x) {
				got = append(got, fmt.Sprintf("%s %.3f", line, x))
			}
		}
		c.Got = strings.Join(got, ", ")
	}
	return c
}

// Bound is a recorded trace at one kind of serving: a row a policy.
type Bound struct {
	Name, Serving string
	Loads         []string
	Rows          []BoundRow
}

// BoundRow is mean TTFT over the reference's, by load.
type BoundRow struct {
	Line string
	Ours bool
	Over []string
}

// boundTables are the recorded traces' tables.
func (b *Book) boundTables() []Bound {
	var out []Bound
	for _, group := range b.groups(byBound) {
		for _, sign := range []float64{1, -1} {
			t := Bound{Name: group, Serving: "aggregated", Loads: []string{"load .5", ".7", ".85"}}
			if sign < 0 {
				t.Serving = "prefill pool"
			}
			for _, line := range bounded[1:] {
				row := BoundRow{Line: line, Ours: line == policy.Default}
				for _, x := range []float64{50, 70, 85} {
					ref, r := b.at(byBound, group, simulation.Pooled, sign*x), b.at(byBound, group, line, sign*x)
					if ref != nil && r != nil {
						row.Over = append(row.Over, fmt.Sprintf("%.2f× (%s)", r.TTFT.Mean/ref.TTFT.Mean, secondsText(meanSeconds(r))))
					}
				}
				t.Rows = append(t.Rows, row)
			}
			out = append(out, t)
		}
	}
	return out
}
