package router

import (
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/load"
	"github.com/banyan-llm/banyan/router/metrics"
)

// saturation is how full each pool is, 0 to 1, for autoscalers: the mean over
// the replicas that may get requests of the fullest of KV cache, requests
// against admission.replica_limit, and 1 where the engine itself has a queue. A
// pool without such a replica is full. Numbers too old say nothing.
func (c *capacity) saturation(now time.Time) map[metrics.Pool]float64 {
	scrapes, limit := c.loads.Scrapes(), c.rules.config().Admission.ReplicaLimit
	sum, n := map[metrics.Pool]float64{}, map[metrics.Pool]int{}
	for _, r := range c.fleet.List() {
		if r.Spec.Kind != fleet.KindReplica {
			continue
		}
		full := 0.0
		if s, ok := scrapes[r.Stream]; ok && load.Fresh(&s, now.UnixMilli(), 5*load.ScrapeFreshMs) {
			full = max(full, float64(s.KVUse))
			if s.Waiting > 0 {
				full = 1
			}
		}
		if limit > 0 {
			total, _, _ := c.loads.Totals(r.Stream)
			full = max(full, float64(total.Waiting+total.Streams)/float64(limit))
		}
		usable := r.Up() && !c.loads.Draining(r.Stream)
		for i, m := range r.Models() {
			if i == metrics.MaxModels {
				break
			}
			k := metrics.Pool{Model: metrics.Label(m.ID), Role: r.Spec.Role}
			if sum[k] += 0; usable {
				sum[k], n[k] = sum[k]+min(max(full, 0), 1), n[k]+1
			}
		}
	}
	for k := range sum {
		if n[k] == 0 {
			sum[k] = 1
			continue
		}
		sum[k] /= float64(n[k])
	}
	return sum
}
