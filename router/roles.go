package router

import (
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/report"
)

// listOf is who is listed, and how prefill and decode are kept apart.
func listOf(rules *inForce, replicas []*fleet.Replica) *report.Fleet {
	cfg := &rules.config().Routing.Disagg
	out := &report.Fleet{Mode: cfg.Mode, Apart: cfg.On()}
	for _, r := range replicas {
		out.Listed = append(out.Listed, report.Listed{
			Name: r.Name(), URL: r.Spec.URL, Role: r.Spec.Role, Serves: r.Spec.Kind == fleet.KindReplica,
			Rank: r.Spec.Rank, Ranks: r.Spec.Ranks, Told: r.Facts().Ranks, OneOfMany: r.OneOfMany(), RanksCut: r.RanksCut(), EventRank: -1,
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
	if len(c.discovery) > 0 {
		return
	}
	for _, q := range listOf(c.rules, c.fleet.List()).RoleProblems() {
		c.log.Warn(q.Text, "cure", q.Help)
	}
}
