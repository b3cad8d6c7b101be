package matrix

import (
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/simulation"
)

func TestTheAblationTellsEveryChange(t *testing.T) {
	cells, err := PlanAblation(Options{Seed: 1, Share: 0.02})
	if err != nil {
		t.Fatal(err)
	}
	reports := make([]simulation.Report, 0, len(cells))
	for i := range cells {
		rep, err := simulation.Evaluate(cells[i].Config)
		if err != nil {
			t.Fatalf("%s: %v", cells[i].Name(), err)
		}
		reports = append(reports, rep)
	}
	var out strings.Builder
	if err := NewBook(1, cells, reports).WriteAblation(&out); err != nil {
		t.Fatal(err)
	}
	for _, ch := range changes {
		if !strings.Contains(out.String(), "\n"+ch.line+" ") {
			t.Errorf("no line for %s", ch.line)
		}
	}
	if bad := numbers.FindString(out.String()); bad != "" || strings.Contains(out.String(), "–") {
		t.Errorf("%q in\n%s", bad, out.String())
	}
}

func TestSeedsAreTakenTogether(t *testing.T) {
	cells := []Cell{{Experiment: byName, Group: "g", Line: "l"}, {Experiment: byName, Group: "g", Line: "m"}, {Experiment: byName, Group: "g", Line: "l"}}
	reports := make([]simulation.Report, 3)
	reports[0].TTFT.Mean, reports[1].TTFT.Mean, reports[2].TTFT.Mean = 10, 50, 20
	reports[0].HitRatio, reports[2].HitRatio = .5, .7
	b := NewBook(1, cells, reports)
	if len(b.Results) != 2 {
		t.Fatalf("%d results of 2 cells", len(b.Results))
	}
	r := &b.Results[0]
	if r.Seeds != 2 || r.Report.TTFT.Mean != 15 || r.Low != 10 || r.High != 20 || r.Report.HitRatio != .6 || r.Spread() != "10 ms – 20 ms" {
		t.Errorf("%d seeds, mean %v, %s, hit %v", r.Seeds, r.Report.TTFT.Mean, r.Spread(), r.Report.HitRatio)
	}
}
