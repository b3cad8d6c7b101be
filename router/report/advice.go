package report

import (
	"slices"

	"github.com/banyan-llm/banyan/router/console"
)

// adviceFor says what becomes of the requests of a replica that is down, and
// what to do. split: prompts may be computed elsewhere than answers.
func adviceFor(down *console.Replica, all []console.Replica, split bool) string {
	var up []*console.Replica
	var drained []string // still serve what no other does
	anybody := false
	for i := range all {
		r := &all[i]
		if !r.Answers() || r.Kind == "pool" || r.Kind == "render" {
			continue
		}
		anybody = true
		switch {
		case !sharesModel(r, down):
		case r.State == "draining":
			drained = append(drained, r.Name)
		default:
			up = append(up, r)
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
		return "What it holds is computed again elsewhere: restart it"
	case down.Kind == "render":
		return "The others, or the replicas themselves, are asked for tokens: restart it"
	case !anybody:
		return "No replica is left and requests get 503. Start one, or check host and port of its url"
	case len(up) == 0 && len(drained) == 1:
		return "Only " + drained[0] + " still serves its model, and it is drained: restart " + down.Name + ", or let the other work again (banyan undrain " + drained[0] + ")"
	case len(up) == 0 && drained != nil:
		return "Only " + listed(drained) + " still serve its model, and they are drained: restart " + down.Name + ", or let one work again (banyan undrain " + drained[0] + ")"
	case len(up) == 0:
		return "No other replica serves its model, whose requests get 503: start one"
	case !split:
		return "Requests go to the others. Restart it, check host and port of its url, or take it out of `replicas`"
	case !alone && !(plays("prefill") && plays("decode")):
		return "SGLang's servers of one role cannot do the other's work and requests get 503: start one of role " + down.Role
	case down.Role == "prefill" && !plays("prefill"):
		return "No prefill replica is left and the others compute prompts themselves: start one"
	case down.Role == "decode" && !plays("decode"):
		return "No decode replica is left and the others serve whole requests: start one"
	}
	return "Requests go to the others. Restart it, check host and port of its url, or take it out of `replicas`"
}

// sharesModel reports whether two replicas serve a model in common, as far as
// they have told.
func sharesModel(a, b *console.Replica) bool {
	return len(a.Models) == 0 || len(b.Models) == 0 ||
		slices.ContainsFunc(a.Models, func(m string) bool { return slices.Contains(b.Models, m) })
}
