package matrix

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

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
	"parts":   func(s string) []string { return strings.Split(s, ", ") },
	"bytes":   bytesText,
	"done": func(r simulation.Report) string {
		if r.Completed == r.Requests {
			return "all " + grouped(r.Requests)
		}
		return fmt.Sprintf("%s of %s", grouped(r.Completed), grouped(r.Requests))
	},
}).Parse(pageText))

// Tile is one figure that stands for much.
type Tile struct{ Big, Small string }

// Named is the table of one workload.
type Named struct {
	Name, About, Published string
	Rows                   []Row
}

// Row is one policy on it.
type Row struct {
	Result
	Ours   bool
	Beside *Beside
}

// WriteHTML writes the page: one file that asks for nothing else.
func (b *Book) WriteHTML(w io.Writer) error {
	return page.Execute(w, map[string]any{
		"Tiles": b.tiles(), "Figures": b.Figures(), "Named": b.namedTables(), "Others": b.others(), "Seed": b.Seed, "Runs": b.runs(),
		"Checks": b.Checks(), "Held": held(b.Checks()), "Bounds": b.boundTables(),
	})
}

// held says how many checks of those that ran hold.
func held(checks []Check) string {
	ran, holds := 0, 0
	for _, c := range checks {
		if c.Ran {
			ran++
		}
		if c.Ran && c.Holds {
			holds++
		}
	}
	return fmt.Sprintf("%d of %d", holds, ran)
}

func (b *Book) runs() (n int) {
	for i := range b.Results {
		n += b.Results[i].Seeds
	}
	return n
}

// changeText writes a change as a percentage, none without a sign.
func changeText(share float64) string {
	if s := fmt.Sprintf("%+.1f %%", 100*share); s != "-0.0 %" && s != "+0.0 %" {
		return s
	}
	return "±0 %"
}

// tiles sum up; one that has no results is left out.
func (b *Book) tiles() []Tile {
	var out []Tile
	one, many := b.at(byPeers, "", lineMesh, 1), b.at(byPeers, "", lineMesh, 16)
	alone := b.at(byPeers, "", lineAlone, 16)
	if one != nil && many != nil && alone != nil {
		out = append(out,
			Tile{changeText(many.TTFT.Mean/one.TTFT.Mean - 1), "mean time to first token with 16 routers instead of one"},
			Tile{fmt.Sprintf("%.0f %% → %.0f %%", hitPercent(alone), hitPercent(many)), "prompt tokens cached with 16 routers: sharing nothing → as a mesh"},
		)
	}
	if x, ref := b.middle(); ref != nil {
		ours, rr := b.at(byRate, "", policy.Default, x), b.at(byRate, "", "round_robin", x)
		if ours != nil && rr != nil {
			out = append(out, Tile{
				fmt.Sprintf("%.1f× → %.2f×", rr.TTFT.Mean/ref.TTFT.Mean, ours.TTFT.Mean/ref.TTFT.Mean),
				"mean time to first token over the reference at two thirds load: round robin → ttft",
			})
		}
	}
	if mesh, random := b.at(byName, "b2b", policy.Default, 0), b.at(byName, "b2b", lineRandom, 0); whole(mesh) && random != nil {
		out = append(out, Tile{
			fmt.Sprintf("%s → %s", secondsText(meanSeconds(random)), secondsText(meanSeconds(mesh))),
			"mean time to first token on llm-d's B2B ladder: random → ttft in a mesh of 16",
		})
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
	return xs[3], b.at(byRate, "", simulation.Pooled, xs[3])
}

// about says what a workload is and what others published for it.
var about = map[string][2]string{
	"b2b":                   {"150 customers × 5 prompts, 6,000 tokens shared, 1,200 own, 1,000 out, eight replicas of a 32B model; a ladder from 3 to 60 requests a second", "Marked figures are what llm-d measured on H100s: throughput is the mean over the steps, p90 the steps' mean weighed with their requests."},
	"b2b37":                 {"83 customers × 3 prompts, 8,000 tokens shared, 1,000 own, 1,000 out, four replicas of a 70B model; 3 to 20 requests a second", "Marked: llm-d's figures, as above."},
	"shared_prefix":         {"SGLang's bench: system prompts of 2,048 tokens, five questions of 128 each, as fast as a client sends", "Published: hit rate from 20 % to 75 %, throughput 1.9×."},
	"few_prefixes":          {"three prefixes of 10,000 tokens: the hot-spot trap", ""},
	"burst":                 {"800 unrelated requests in flight: nothing to find, nothing to lose", ""},
	"multi_turn":            {"chat with a growing context and think times", ""},
	"agents":                {"long shared preambles, 20 to 100 turns, 2 s apart", ""},
	"reasoning":             {"short in, 8,000 tokens out: nobody may lose", ""},
	"mooncake_conversation": {"recorded chat, 16 replicas; loads are shares of what the reference serves", ""},
	"mooncake_synthetic":    {"recorded mixed traffic with much sharing", ""},
	"agent_sessions":        {"recorded agent prompts", ""},
}

func (b *Book) namedTables() []Named {
	var out []Named
	for _, r := range b.of(byName) {
		if len(out) == 0 || out[len(out)-1].Name != r.Group {
			out = append(out, Named{Name: r.Group, About: about[r.Group][0], Published: about[r.Group][1]})
		}
		n := &out[len(out)-1]
		n.Rows = append(n.Rows, Row{Result: r, Ours: r.Line == policy.Default, Beside: beside(&r)})
	}
	return out
}

// others are the results behind the plots and checks.
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
