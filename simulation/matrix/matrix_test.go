package matrix

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/simulation"
)

// small plays the whole matrix with few requests.
func small(t *testing.T) ([]Cell, *Book) {
	t.Helper()
	cells, err := Plan(Options{Seed: 2, Share: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	var reports []simulation.Report
	for i := range cells {
		rep, err := simulation.Evaluate(cells[i].Config)
		if err != nil {
			t.Fatalf("%s: %v", cells[i].Name(), err)
		}
		reports = append(reports, rep)
	}
	return cells, NewBook(2, cells, reports)
}

func written(t *testing.T, b *Book) (page, table string) {
	t.Helper()
	var p, x strings.Builder
	if err := b.WriteHTML(&p); err != nil {
		t.Fatal(err)
	}
	if err := b.WriteText(&x); err != nil {
		t.Fatal(err)
	}
	return p.String(), x.String()
}

var (
	outside = regexp.MustCompile(`(?i)(?:src|href|url|@import|<script|<link)[\s="'(]`)
	numbers = regexp.MustCompile(`NaN|Inf|%!`)
)

func TestX1X2X3TheWholeMatrixIsTold(t *testing.T) {
	cells, book := small(t)
	page, table := written(t, book)
	_, again := small(t)
	page2, table2 := written(t, again)
	if page != page2 || table != table2 {
		t.Error("X1: the same options gave another page")
	}
	if got := strings.Count(page, "<tr"); got < len(cells) {
		t.Errorf("X2: %d table rows for %d cells", got, len(cells))
	}
	for i := range cells {
		if c := &cells[i]; !strings.Contains(table, fmt.Sprintf("\n  %-26s ", c.Line)) {
			t.Errorf("X2: %s is not in the text", c.Name())
		}
	}
	if got := strings.Count(page, "<svg "); got != len(book.Figures()) || got < 6 {
		t.Errorf("%d plots on the page, %d figures", got, len(book.Figures()))
	}
	if m := outside.FindString(page); m != "" {
		t.Errorf("X3: the page asks for something outside: %q", m)
	}
	if m := numbers.FindString(page + table); m != "" {
		t.Errorf("%q on the page", m)
	}
}

func TestEveryLineOfEveryPlotHasAColourOfItsOwn(t *testing.T) {
	cells, err := Plan(Options{Seed: 2, Share: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range NewBook(2, cells, make([]simulation.Report, len(cells))).Figures() {
		seen := map[any]string{}
		for _, l := range f.Plot.Lines {
			look := [2]any{l.Colour, l.Dashed} // a published line is its own's, dashed
			if other, ok := seen[look]; ok {
				t.Errorf("%s: %s looks like %s", f.File, l.Name, other)
			}
			seen[look] = l.Name
			if stages := strings.HasPrefix(f.File, "b2b"); len(l.Points) < 2 && !stages { // those are in the reports
				t.Errorf("%s: %s has %d points", f.File, l.Name, len(l.Points))
			}
		}
	}
}

func TestABookWithHolesIsStillAPage(t *testing.T) {
	written(t, NewBook(1, nil, nil))
}

// TestAgentsAreToldToo plays a few of the runs with coding agents.
func TestAgentsAreToldToo(t *testing.T) {
	all, err := PlanAgents(Options{Seed: 2, Share: 0.02})
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]Cell{}
	for i := range all {
		if _, ok := first[all[i].Experiment]; !ok {
			first[all[i].Experiment] = all[i]
		}
	}
	var cells []Cell
	var reports []simulation.Report
	for i := range all {
		if f := first[all[i].Experiment]; f.X != all[i].X || f.Group != all[i].Group || all[i].Config.Replicas > 16 {
			continue
		}
		rep, err := simulation.Evaluate(all[i].Config)
		if err != nil {
			t.Fatalf("%s: %v", all[i].Name(), err)
		}
		cells, reports = append(cells, all[i]), append(reports, rep)
	}
	var x strings.Builder
	if err := NewBook(2, cells, reports).WriteAgents(&x, AgentSample(cells)); err != nil {
		t.Fatal(err)
	}
	if m := numbers.FindString(x.String()); m != "" {
		t.Errorf("%q in the tables", m)
	}
	if got := strings.Count(x.String(), "| **"); got < len(first)-1 { // equals are first together; what peers know has no rivals
		t.Errorf("%d of %d tables have a first policy", got, len(first)-1)
	}
	if got := strings.Count(x.String(), "| without "); got != 5 {
		t.Errorf("%d pieces of knowledge are taken away, want 5", got)
	}
}
