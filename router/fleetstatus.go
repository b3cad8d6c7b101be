package router

import (
	"fmt"
	"time"

	"github.com/banyan-llm/banyan/router/console"
)

// fleetProblems says what an operator should know of how replicas are found
// and listed.
func (rep *replicaReport) fleetProblems() []console.Problem {
	var out []console.Problem
	for _, f := range rep.census.discovery {
		if why := f.trouble(); why != "" {
			out = append(out, console.Problem{
				Text: fmt.Sprintf("Discovery by %s fails: %s", f.source, why), Help: "Replicas stay as it last listed them",
			})
		}
	}
	listed := map[string]int{}
	for _, r := range rep.fleet.List() {
		listed[r.Spec.URL]++
	}
	for _, r := range rep.fleet.List() {
		st, ok := rep.ingest.told(r.Stream)
		if ok && st.Rank >= 0 && st.Rank != r.Spec.Rank && r.OneOfMany() {
			out = append(out, console.Problem{
				Text: fmt.Sprintf("The events that %s listens to are of data-parallel rank %d, not %d", r.Name(), st.Rank, r.Spec.Rank),
				Help: "Check its events port: the engine adds the rank to the first rank's port",
			})
		}
		if st.Warning != "" {
			out = append(out, console.Problem{Text: r.Name() + ": " + st.Warning, Help: "Its cache is known in part only"})
		}
	}
	for _, r := range rep.fleet.List() {
		ranks, n := r.Facts().Ranks, listed[r.Spec.URL]
		switch {
		case ranks > n:
			out = append(out, console.Problem{
				Text: fmt.Sprintf("%s runs %d data-parallel ranks and %d of them are listed", r.Spec.URL, ranks, n),
				Help: "List it once without rank and ranks: every rank then becomes a replica; now the others' caches are not seen",
			})
		case r.Spec.Ranks > 1 && ranks > 0 && ranks < n:
			out = append(out, console.Problem{
				Text: fmt.Sprintf("%s runs %d data-parallel ranks, not %d", r.Spec.URL, ranks, n), Help: "Correct ranks in the configuration, or leave it out: the engine refuses requests for ranks it has not",
			})
		default:
			continue
		}
		listed[r.Spec.URL] = ranks // once a URL
	}
	out = append(out, rep.ingest.hubProblems(time.Now())...)
	d := &rep.rules.config().Routing.Disagg
	return append(out, roleProblems(d.Mode, d.On(), rep.fleet.List())...)
}
