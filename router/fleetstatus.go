package router

import (
	"fmt"

	"github.com/banyan-llm/banyan/router/console"
)

// fleetProblems says what an operator should know of how replicas are found
// and listed.
func (p *Peer) fleetProblems() []console.Problem {
	var out []console.Problem
	for _, f := range p.discovery {
		if why := f.trouble(); why != "" {
			out = append(out, console.Problem{
				Text: fmt.Sprintf("Discovery by %s fails: %s", f.source, why), Help: "Replicas stay as it last listed them",
			})
		}
	}
	listed := map[string]int{}
	for _, r := range p.fleet.List() {
		listed[r.Spec.URL]++
	}
	for _, r := range p.fleet.List() {
		if ranks, n := r.Facts().Ranks, listed[r.Spec.URL]; ranks > n {
			out = append(out, console.Problem{
				Text: fmt.Sprintf("%s runs %d data-parallel ranks and %d of them are listed", r.Spec.URL, ranks, n),
				Help: "List every rank as a replica of its own, with rank: 0 and on; the others' caches are not seen",
			})
			listed[r.Spec.URL] = ranks // once a URL
		}
	}
	return out
}
