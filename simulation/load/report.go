package load

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
)

// Report is what `banyan load --json` prints. Times are of completed requests.
type Report struct {
	URL         string               `json:"url"`
	Workload    string               `json:"workload"`
	Model       string               `json:"model"`
	Seed        uint64               `json:"seed"`
	TraceHash   string               `json:"trace_hash"`
	Told        string               `json:"told,omitempty"` // what reading changed of the trace
	Seconds     float64              `json:"seconds"`        // from the first request to the last answer
	Sent        int                  `json:"requests"`
	Completed   int                  `json:"completed"`
	Failed      int                  `json:"failed"`
	Failures    map[client.Cause]int `json:"failures"` // by cause
	Overrun     int                  `json:"overrun"`  // due, but too many were in flight
	Unsent      int                  `json:"unsent"`   // the time was over before they were due
	MaxInFlight int                  `json:"max_in_flight"`
	Rate        float64              `json:"completed_per_s"`

	TTFT Spread `json:"ttft_ms"`
	TPOT Pair   `json:"tpot_ms"` // per token after the first
	E2E  Spread `json:"e2e_ms"`
	Late Pair   `json:"late_ms"` // how long after they were due requests were sent

	PromptTokens    int     `json:"prompt_tokens"`
	CachedTokens    int     `json:"cached_tokens"`
	CachedRatio     float64 `json:"cached_token_ratio"` // of all prompt tokens: engines leave a count of 0 out
	CachedReports   int     `json:"cached_reports"`     // answers that told one; 0: the engine never does, the ratio says nothing
	OutputTokens    int     `json:"output_tokens"`
	OutputPerSecond float64 `json:"output_tokens_per_s"`

	Replicas map[string]int `json:"replicas,omitempty"` // completed requests, as Banyan's headers say
	Peers    map[string]int `json:"peers,omitempty"`

	FirstError string `json:"first_error,omitempty"`
}

// Spread describes many values, in ms.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// Pair is two percentiles of many values, in ms.
type Pair struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// maxNames bounds what answers' headers may add to a report.
const maxNames = 256

// tally collects answers.
type tally struct {
	Report
	ttft, tpot, e2e, late []float64 // ms
}

func (t *tally) add(o *outcome) {
	a := &o.a
	t.late = append(t.late, ms(o.late))
	if a.Err != nil {
		t.Failed++
		if t.Failures == nil {
			t.Failures = make(map[client.Cause]int)
		}
		t.Failures[a.Cause]++
		if t.FirstError == "" {
			t.FirstError = a.Err.Error()
		}
		return
	}
	t.Completed++
	t.e2e = append(t.e2e, ms(a.Total))
	if a.TTFT > 0 { // an answer may be empty
		t.ttft = append(t.ttft, ms(a.TTFT))
		if a.Output > 1 {
			t.tpot = append(t.tpot, ms(a.Total-a.TTFT)/float64(a.Output-1))
		}
	}
	t.PromptTokens += a.Prompt
	t.OutputTokens += a.Output
	if a.CachedKnown {
		t.CachedReports++
		t.CachedTokens += a.Cached
	}
	count(&t.Replicas, a.Replica)
	count(&t.Peers, a.Peer)
}

func count(m *map[string]int, name string) {
	if name == "" {
		return
	}
	if *m == nil {
		*m = make(map[string]int)
	}
	if _, known := (*m)[name]; !known && len(*m) >= maxNames {
		name = "others"
	}
	(*m)[name]++
}

func (t *tally) report(cfg *Config, took time.Duration) Report {
	r := t.Report
	r.URL, r.Workload, r.Model, r.Seed = cfg.Client.URL, cfg.Workload.Name, cfg.Writer.Model, cfg.Seed
	r.Told = cfg.Workload.Told
	r.TraceHash = fmt.Sprintf("%016x", cfg.Workload.Hash())
	r.Seconds = took.Seconds()
	r.TTFT, r.E2E = spread(t.ttft), spread(t.e2e)
	tpot, late := spread(t.tpot), spread(t.late)
	r.TPOT, r.Late = Pair{tpot.P50, tpot.P99}, Pair{late.P50, late.P99}
	if r.PromptTokens > 0 {
		r.CachedRatio = float64(r.CachedTokens) / float64(r.PromptTokens)
	}
	if r.Seconds > 0 {
		r.Rate, r.OutputPerSecond = float64(r.Completed)/r.Seconds, float64(r.OutputTokens)/r.Seconds
	}
	if r.Failures == nil {
		r.Failures = map[client.Cause]int{}
	}
	return r
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spread describes values; it sorts them.
func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	at := func(q float64) float64 { return values[int(math.Ceil(q*float64(len(values))))-1] }
	return Spread{sum / float64(len(values)), at(0.5), at(0.9), at(0.99)}
}

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	p := &printer{w: w}
	p.f("\n%s with %s, model %s: %d requests in %.1f s\n", r.URL, r.Workload, r.Model, r.Sent, r.Seconds)
	if r.Told != "" {
		p.f("%s\n", r.Told)
	}
	p.f("\n")
	p.f("  completed    %8d   %.2f a second, at most %d in flight\n", r.Completed, r.Rate, r.MaxInFlight)
	p.f("  failed       %8d", r.Failed)
	for _, cause := range slices.Sorted(maps.Keys(r.Failures)) {
		p.f("   %s %d", cause, r.Failures[cause])
	}
	p.f("\n")
	if r.Overrun+r.Unsent > 0 {
		p.f("  not sent     %8d   %d over --max-in-flight, %d due after --duration\n", r.Overrun+r.Unsent, r.Overrun, r.Unsent)
	}
	if r.Completed > 0 {
		p.f("\n  %-12s %10s %10s %10s %10s\n", "ms", "MEAN", "P50", "P90", "P99")
		p.f("  %-12s %10.1f %10.1f %10.1f %10.1f\n", "first token", r.TTFT.Mean, r.TTFT.P50, r.TTFT.P90, r.TTFT.P99)
		p.f("  %-12s %10s %10.2f %10s %10.2f\n", "per token", "", r.TPOT.P50, "", r.TPOT.P99)
		p.f("  %-12s %10.1f %10.1f %10.1f %10.1f\n\n", "whole answer", r.E2E.Mean, r.E2E.P50, r.E2E.P90, r.E2E.P99)
		p.f("  prompt tokens %d, generated %d (%.0f a second)\n", r.PromptTokens, r.OutputTokens, r.OutputPerSecond)
		if r.CachedReports > 0 {
			p.f("  %.1f %% of the prompt tokens were cached; %d of %d answers had some\n", 100*r.CachedRatio, r.CachedReports, r.Completed)
		} else {
			p.f("  no answer told how many prompt tokens were cached\n")
		}
	}
	if r.Late.P99 > 20 {
		p.f("  requests were sent up to %.0f ms (p99) after they were due: this machine is too busy to time them\n", r.Late.P99)
	}
	for _, part := range []struct {
		what   string
		counts map[string]int
	}{{"replica", r.Replicas}, {"peer", r.Peers}} {
		if len(part.counts) == 0 {
			continue
		}
		p.f("  by %s:", part.what)
		for _, name := range slices.Sorted(maps.Keys(part.counts)) {
			p.f(" %s %d", name, part.counts[name])
		}
		p.f("\n")
	}
	if r.FirstError != "" {
		p.f("  first failure: %s\n", r.FirstError)
	}
	return p.err
}

// printer keeps the first error of many prints.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
