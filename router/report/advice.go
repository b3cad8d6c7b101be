package report

import (
	"slices"

	"github.com/banyan-llm/banyan/router/console"
)

// adviceFor says what becomes of the requests of a replica that is down, and
// what to do. split: prompts may be computed elsewhere than answers.
func adviceFor(down *console.Replica, all []console.Replica, split bool) string {
	var up []*console.Replica
	anybody := false
	for i := range all {
		if r := &all[i]; r.State == "up" && r.Kind != "pool" && r.Kind != "render" {
			anybody = true
			if sharesModel(r, down) {
				up = append(up, r)
			}
		}
	}
	plays := func(role string) bool {
		return slices.ContainsFunc(up, func(r *console.Replica) bool { return r.Role == role })
	}
	alone := slices.ContainsFunc(up, func(r *console.Replica) bool {
		return r.Role != "prefill" && r.Role != "decode" || r.Engine != "sglang"
	})
	switch {
	case down.Kind == "pool":
		return "What it holds is computed again elsewhere: repair it"
	case down.Kind == "render":
		return "The others, or the replicas themselves, are asked for tokens: restart it"
	case !anybody:
		return "No replica is left and requests get 503: start one"
	case len(up) == 0:
		return "No other replica serves its model, whose requests get 503: start one"
	case !split:
		return "Requests go to the others: repair or remove it"
	case !alone && !(plays("prefill") && plays("decode")):
		return "SGLang's servers of one role cannot do the other's work and requests get 503: start one of role " + down.Role
	case down.Role == "prefill" && !plays("prefill"):
		return "No prefill replica is left and the others compute prompts themselves: start one"
	case down.Role == "decode" && !plays("decode"):
		return "No decode replica is left and the others serve whole requests: start one"
	}
	return "Requests go to the others: repair or remove it"
}

// sharesModel reports whether two replicas serve a model in common, as far as
// they have told.
func sharesModel(a, b *console.Replica) bool {
	return len(a.Models) == 0 || len(b.Models) == 0 ||
		slices.ContainsFunc(a.Models, func(m string) bool { return slices.Contains(b.Models, m) })
}
