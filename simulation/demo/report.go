package demo

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
)

// Report is what `banyan demo --json` prints.
type Report struct {
	Peers            int                     `json:"peers"`
	Replicas         int                     `json:"replicas"`
	Requests         int                     `json:"requests"`
	Failed           int                     `json:"failed"`
	Retried          int                     `json:"retried"`
	Policies         map[string]PolicyReport `json:"policies"`
	Converged        bool                    `json:"converged"`
	DivergentStreams int                     `json:"divergent_streams"`
	PropagationMs    Quantiles               `json:"propagation_ms"`
	KilledPeer       KilledPeer              `json:"killed_peer"`
	JoinedPeer       JoinedPeer              `json:"joined_peer"`
	Seconds          float64                 `json:"seconds"`
	Checks           []Check                 `json:"checks"`
}

// PolicyReport is the same traffic under one policy.
type PolicyReport struct {
	Requests         int       `json:"requests"`
	Failed           int       `json:"failed"`
	CachedTokenRatio float64   `json:"cached_token_ratio"`
	TTFTMs           Quantiles `json:"ttft_ms"`
	LoadCV           float64   `json:"load_cv"`
}

// Quantiles of a sample; P90 is 0 where it was not asked for.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90,omitempty"`
	P99 float64 `json:"p99"`
}

// KilledPeer is what the SIGKILL cost.
type KilledPeer struct {
	Name           string   `json:"name"`
	InFlightLost   int      `json:"in_flight_lost"`
	Lost           []string `json:"lost"` // one line a cut stream
	RequestsFailed int      `json:"requests_failed"`
	ReconvergedMs  float64  `json:"reconverged_ms"` // until no other peer listed it as alive
}

// JoinedPeer is how fast a fresh peer was of use.
type JoinedPeer struct {
	Name    string  `json:"name"`
	ReadyMs float64 `json:"ready_ms"`
	Facts   uint64  `json:"facts"`
}

// Check is one thing that must hold.
type Check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Why  string `json:"why,omitempty"`
}

// OK reports whether every check holds.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK })
}

func (r *Report) check(ok bool, what, why string, args ...any) {
	c := Check{What: what, OK: ok}
	if !ok {
		c.Why = fmt.Sprintf(why, args...)
	}
	r.Checks = append(r.Checks, c)
}

// summarise turns answers into one row; failed counts what is lost for another
// reason than the killed peer's cut streams.
func summarise(answers []client.Answer, replicas int, excused func(client.Answer) bool) PolicyReport {
	p := PolicyReport{Requests: len(answers)}
	var ttft []float64
	load := map[string]float64{}
	var prompt, cached float64
	for _, a := range answers {
		if a.Err != nil {
			if !excused(a) {
				p.Failed++
			}
			continue
		}
		ttft = append(ttft, ms(a.TTFT))
		prompt += float64(a.Prompt)
		cached += float64(a.Cached)
		load[a.Replica] += float64(a.Prompt - a.Cached)
	}
	if prompt > 0 {
		p.CachedTokenRatio = cached / prompt
	}
	slices.Sort(ttft)
	p.TTFTMs = Quantiles{quantile(ttft, .5), quantile(ttft, .9), quantile(ttft, .99)}
	p.LoadCV = variation(load, replicas)
	return p
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile of a sorted sample, nearest rank.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// variation is the coefficient of variation of the uncached tokens per
// replica, replicas that got nothing included.
func variation(load map[string]float64, replicas int) float64 {
	var sum, squares float64
	for _, v := range load {
		sum += v
		squares += v * v
	}
	n := float64(max(replicas, len(load)))
	if sum == 0 {
		return 0
	}
	mean := sum / n
	return math.Sqrt(max(0, squares/n-mean*mean)) / mean
}

// Write prints the report for people.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "\nThe same traffic under three policies (%d requests, %d replicas, %d router peers):\n\n", r.Requests, r.Replicas, r.Peers)
	fmt.Fprintf(w, "  %-12s %8s %8s %10s %10s %10s %9s\n", "POLICY", "REQUESTS", "CACHED", "TTFT P50", "P90", "P99", "LOAD CV")
	for _, name := range policies {
		p := r.Policies[name]
		fmt.Fprintf(w, "  %-12s %8d %6.1f %% %7.0f ms %7.0f ms %7.0f ms %9.2f\n",
			name, p.Requests, 100*p.CachedTokenRatio, p.TTFTMs.P50, p.TTFTMs.P90, p.TTFTMs.P99, p.LoadCV)
	}
	fmt.Fprintf(w, "\n  CACHED is the share of prompt tokens that the replicas found in their caches; LOAD CV how\n")
	fmt.Fprintf(w, "  unevenly the computed tokens fell on the replicas (0 is even).\n\n")
	k := r.KilledPeer
	fmt.Fprintf(w, "  peer %s was killed with SIGKILL: the other peers knew it after %.0f ms; %d requests failed;\n", k.Name, k.ReconvergedMs, k.RequestsFailed)
	fmt.Fprintf(w, "  %d answers that had begun to stream through it were cut:\n", k.InFlightLost)
	for _, line := range k.Lost {
		fmt.Fprintf(w, "      %s\n", line)
	}
	fmt.Fprintf(w, "  peer %s joined: ready after %.0f ms with %d facts, all from the other peers\n", r.JoinedPeer.Name, r.JoinedPeer.ReadyMs, r.JoinedPeer.Facts)
	fmt.Fprintf(w, "  events reached the other peers in %.1f ms (p50), %.1f ms (p99)\n\n", r.PropagationMs.P50, r.PropagationMs.P99)
	for _, c := range r.Checks {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		line := fmt.Sprintf("  [%s] %s", mark, c.What)
		if c.Why != "" {
			line += ": " + c.Why
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	verdict := "All checks hold"
	if !r.OK() {
		verdict = "NOT all checks hold"
	}
	fmt.Fprintf(w, "\n%s (%.0f s).\n", verdict, r.Seconds)
}
