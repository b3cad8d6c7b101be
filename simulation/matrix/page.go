package matrix

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"svg":     func(f Figure) template.HTML { return template.HTML(f.Plot.SVG()) },
	"seconds": func(ms float64) string { return secondsText(ms / 1000) },
	"percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
	"count":   func(v float64) string { return grouped(int(v + 0.5)) },
	"ratio":   func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"name":    nameOf,
}).Parse(pageText))

// wholeB2B tells the whole ladder from a share of it, which is not to be
// compared with what was published.
const wholeB2B = 14_000

// Tile is one figure that stands for much.
type Tile struct{ Big, Small string }

// Named is the table of one workload.
type Named struct {
	Name, About, Published string
	Rows                   []Row
}

// Row is one policy on it.
type Row struct {
	Line   string
	Ours   bool
	Report simulation.Report
}

// WriteHTML writes the page: one file that asks for nothing else.
func (b *Book) WriteHTML(w io.Writer) error {
	return page.Execute(w, map[string]any{
		"Tiles": b.tiles(), "Figures": b.Figures(), "Named": b.namedTables(), "Others": b.others(), "Seed": b.Seed, "Runs": len(b.Results),
	})
}

// tiles sum up; one that has no results is left out.
func (b *Book) tiles() []Tile {
	var out []Tile
	one, many := b.at(byPeers, lineMesh, 1), b.at(byPeers, lineMesh, 16)
	alone := b.at(byPeers, lineAlone, 16)
	if one != nil && many != nil && alone != nil {
		out = append(out,
			Tile{fmt.Sprintf("%+.1f %%", 100*(many.TTFT.Mean/one.TTFT.Mean-1)), "mean time to first token with 16 routers instead of one"},
			Tile{fmt.Sprintf("%.0f %% → %.0f %%", hitPercent(alone), hitPercent(many)), "prompt tokens cached with 16 routers: sharing nothing → as a mesh"},
		)
	}
	if x, ref := b.middle(); ref != nil {
		ours, rr := b.at(byRate, policy.Default, x), b.at(byRate, "round_robin", x)
		if ours != nil && rr != nil {
			out = append(out, Tile{
				fmt.Sprintf("%.1f× → %.2f×", rr.TTFT.Mean/ref.TTFT.Mean, ours.TTFT.Mean/ref.TTFT.Mean),
				"mean time to first token over the reference at two thirds load: round robin → ttft",
			})
		}
	}
	if b2b := b.row("b2b", policy.Default); b2b != nil && b2b.Requests >= wholeB2B {
		out = append(out, Tile{grouped(int(b2b.OutputPerSecond)), "tokens a second on the b2b run; published for precise routing: 8,730"})
	}
	return out
}

// middle is the rate of two thirds load and the reference there.
func (b *Book) middle() (x float64, ref *simulation.Report) {
	var xs []float64
	for _, r := range b.of(byRate) {
		if r.Line == simulation.Pooled {
			xs = append(xs, r.X)
		}
	}
	if len(xs) < 4 {
		return 0, nil
	}
	return xs[3], b.at(byRate, simulation.Pooled, xs[3])
}

func (b *Book) row(trace, line string) *simulation.Report {
	for i := range b.Results {
		if r := &b.Results[i]; r.Experiment == byName && r.Report.Trace == trace && r.Line == line {
			return &r.Report
		}
	}
	return nil
}

// about says what a workload is and what others published for it.
var about = map[string][2]string{
	"b2b":           {"150 customers × 5 prompts, 6,000 tokens shared, 1,200 own; a ladder from 3 to 60 requests a second", "Published (llm-d): random 45.3 s and 4,429 tokens a second, load alone 47.0 s and 4,429, precise 0.298 s and 8,730. Here nobody gives up: what is overloaded queues to the end of the ladder, so the losers' means are longer."},
	"b2b37":         {"83 customers × 3 prompts, 8,000 tokens shared, 1,000 own, 1,000 out; 3 to 20 requests a second", "Published (llm-d): random 2,895 tokens a second, load alone 3,018, precise 5,650 and 0.275 s at p90."},
	"shared_prefix": {"SGLang's bench: system prompts of 2,048 tokens, five questions of 128 each, all at once", "Published: hit rate from 20 % to 75 %, throughput 1.9×."},
	"few_prefixes":  {"three prefixes of 10,000 tokens: the hot-spot trap", ""},
	"burst":         {"800 unrelated requests in flight: nothing to find, nothing to lose", ""},
	"multi_turn":    {"chat with a growing context and think times", ""},
	"agents":        {"long shared preambles, 20 to 100 turns, 2 s apart", ""},
	"reasoning":     {"short in, 8,000 tokens out: nobody may lose", ""},
}

func (b *Book) namedTables() []Named {
	var out []Named
	for _, r := range b.of(byName) {
		trace := r.Report.Trace
		if len(out) == 0 || out[len(out)-1].Name != trace {
			out = append(out, Named{Name: trace, About: about[trace][0], Published: about[trace][1]})
		}
		n := &out[len(out)-1]
		n.Rows = append(n.Rows, Row{r.Line, r.Line == policy.Default, r.Report})
	}
	return out
}

// others are the results behind the plots.
func (b *Book) others() []Result {
	var out []Result
	for i := range b.Results {
		if b.Results[i].Experiment != byName {
			out = append(out, b.Results[i])
		}
	}
	return out
}

// grouped writes 12345 as 12,345.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
