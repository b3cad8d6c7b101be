package router

import (
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
)

// roleProblems says which roles are missing where prefill and decode are kept
// apart, and which are of no use where they are not.
func roleProblems(mode string, on bool, replicas []*fleet.Replica) (out []console.Problem) {
	has := map[string][]string{}
	for _, r := range replicas {
		if r.Spec.Kind == fleet.KindReplica {
			has[r.Spec.Role] = append(has[r.Spec.Role], r.Name())
		}
	}
	var missing []string
	for _, role := range []string{"prefill", "decode"} {
		if len(has[role]) == 0 {
			missing = append(missing, "role: "+role)
		}
	}
	switch {
	case on && len(missing) > 0 && len(replicas) > 0:
		out = append(out, console.Problem{
			Text: fmt.Sprintf("routing.disaggregate.mode is %s and no replica has %s", mode, strings.Join(missing, " nor ")),
			Help: "Every request is served whole: give replicas these roles, or set the mode to off",
		})
	case !on && len(has["decode"]) > 0:
		out = append(out, console.Problem{
			Text: "no requests go to replicas of role: decode while routing.disaggregate.mode is off: " + listed(has["decode"]),
			Help: "Set the mode to threshold or conditional, or leave the role out",
		})
	}
	return out
}

// rolesUp counts the replicas of prefill and of decode that may get requests.
func rolesUp(replicas []*fleet.Replica) map[string]int {
	n := map[string]int{"prefill": 0, "decode": 0}
	for _, r := range replicas {
		unfit, _ := r.Unfit()
		if _, apart := n[r.Spec.Role]; apart && r.Spec.Kind == fleet.KindReplica && r.Up() && unfit == "" {
			n[r.Spec.Role]++
		}
	}
	return n
}

// tellRoles logs at the start what is missing, where the configuration alone
// says who the replicas are.
func (c *census) tellRoles() {
	cfg := c.rules.config()
	if len(c.discovery) > 0 {
		return
	}
	for _, q := range roleProblems(cfg.Routing.Disagg.Mode, cfg.Routing.Disagg.On(), c.fleet.List()) {
		c.log.Warn(q.Text, "cure", q.Help)
	}
}
