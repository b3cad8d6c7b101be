package matrix

import (
	"fmt"
	"io"
	"math"

	"github.com/banyan-llm/banyan/simulation"
)

// take sets a result to the means of its reports.
func (r *Result) take(reports []simulation.Report) {
	n := float64(len(reports))
	r.Seeds, r.Report = len(reports), reports[0]
	r.Low, r.High = reports[0].TTFT.Mean, reports[0].TTFT.Mean
	for i := range reports {
		r.Low, r.High = math.Min(r.Low, reports[i].TTFT.Mean), math.Max(r.High, reports[i].TTFT.Mean)
	}
	mean := func(field func(*simulation.Report) *float64) {
		sum := 0.0
		for i := range reports {
			sum += *field(&reports[i])
		}
		*field(&r.Report) = sum / n
	}
	for _, field := range []func(*simulation.Report) *float64{
		func(p *simulation.Report) *float64 { return &p.HitRatio },
		func(p *simulation.Report) *float64 { return &p.IdealHitRatio },
		func(p *simulation.Report) *float64 { return &p.FollowUpCached },
		func(p *simulation.Report) *float64 { return &p.SameReplica },
		func(p *simulation.Report) *float64 { return &p.TTFT.Mean },
		func(p *simulation.Report) *float64 { return &p.TTFT.P50 },
		func(p *simulation.Report) *float64 { return &p.TTFT.P90 },
		func(p *simulation.Report) *float64 { return &p.TTFT.P99 },
		func(p *simulation.Report) *float64 { return &p.TPOT.P50 },
		func(p *simulation.Report) *float64 { return &p.TPOT.P99 },
		func(p *simulation.Report) *float64 { return &p.OutputPerSecond },
		func(p *simulation.Report) *float64 { return &p.MaxOverMean },
		func(p *simulation.Report) *float64 { return &p.LoadCV },
		func(p *simulation.Report) *float64 { return &p.E2E },
		func(p *simulation.Report) *float64 { return &p.Turns.Mean },
		func(p *simulation.Report) *float64 { return &p.Forks.Mean },
		func(p *simulation.Report) *float64 { return &p.Forks.P90 },
		func(p *simulation.Report) *float64 { return &p.SessionE2E },
	} {
		mean(field)
	}
	r.takeStages(reports)
	sum, again := int64(0), int64(0)
	for i := range reports {
		sum, again = sum+reports[i].GossipBytes, again+reports[i].Again
	}
	r.Report.GossipBytes, r.Report.Again = sum/int64(len(reports)), again/int64(len(reports))
}

// takeStages does the same for the stages.
func (r *Result) takeStages(reports []simulation.Report) {
	r.Report.Stages = append([]simulation.StageReport(nil), reports[0].Stages...)
	for k := range r.Report.Stages {
		s := &r.Report.Stages[k]
		s.TTFT.Mean, s.TTFT.P90, s.OutputPerSecond = 0, 0, 0
		n := 0.0
		for i := range reports {
			if k >= len(reports[i].Stages) {
				continue
			}
			o := &reports[i].Stages[k]
			s.TTFT.Mean, s.TTFT.P90, s.OutputPerSecond = s.TTFT.Mean+o.TTFT.Mean, s.TTFT.P90+o.TTFT.P90, s.OutputPerSecond+o.OutputPerSecond
			n++
		}
		s.TTFT.Mean, s.TTFT.P90, s.OutputPerSecond = s.TTFT.Mean/n, s.TTFT.P90/n, s.OutputPerSecond/n
	}
}

// Spread is the least and the greatest mean TTFT of the seeds.
func (r *Result) Spread() string {
	if r.Seeds < 2 {
		return ""
	}
	return secondsText(r.Low/1000) + " – " + secondsText(r.High/1000)
}

func percentText(v float64) string { return fmt.Sprintf("%.0f %%", v) }

// secondsText writes seconds with a fitting unit.
func secondsText(s float64) string {
	switch {
	case math.IsNaN(s):
		return "–"
	case s >= 99.5:
		return fmt.Sprintf("%.0f s", s)
	case s >= 0.9995:
		return fmt.Sprintf("%.3g s", s)
	}
	return fmt.Sprintf("%.3g ms", 1000*s)
}

// bytesText writes bytes with a fitting unit.
func bytesText(n int64) string {
	switch {
	case n == 0:
		return "–"
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.3g MB", float64(n)/1e6)
}

// WriteText prints every result and check as tables.
func (b *Book) WriteText(w io.Writer) error {
	if err := b.writeResults(w); err != nil {
		return err
	}
	for _, c := range b.Checks() {
		if _, err := fmt.Fprintf(w, "\n%-13s %s\n  wanted %s; %s\n  here   %s\n", c.Verdict(), c.What, c.Want, c.Tolerance, c.Got); err != nil {
			return err
		}
	}
	return nil
}

// WriteCells prints the checks as one Markdown table.
func (b *Book) WriteCells(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "| cell | expected | ours | tolerance | holds |\n|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, c := range b.Checks() {
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", c.What, c.Want, c.Got, c.Tolerance, c.Verdict()); err != nil {
			return err
		}
	}
	return nil
}

func (b *Book) writeResults(w io.Writer) error {
	last := ""
	for i := range b.Results {
		r := &b.Results[i]
		if head := r.Experiment + " " + r.Group; head != last {
			last = head
			if _, err := fmt.Fprintf(w, "\n%-28s %8s %8s %10s %17s %10s %10s %9s %9s %9s %12s\n",
				head, "X", "CACHED", "TTFT MEAN", "SEEDS", "P90", "P99", "TOKENS/S", "MAX/MEAN", "GOSSIP", "COMPLETED"); err != nil {
				return err
			}
		}
		p := &r.Report
		if _, err := fmt.Fprintf(w, "  %-26s %8.3g %6.1f %% %10s %17s %10s %10s %9.0f %9.2f %9s %6d/%d\n", r.Line, r.X, 100*p.HitRatio,
			secondsText(p.TTFT.Mean/1000), r.Spread(), secondsText(p.TTFT.P90/1000), secondsText(p.TTFT.P99/1000), p.OutputPerSecond, p.MaxOverMean, bytesText(p.GossipBytes), p.Completed, p.Requests); err != nil {
			return err
		}
	}
	return nil
}
