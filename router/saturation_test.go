package router

import (
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
)

// An autoscaler must see a pool without a usable replica as full, not as idle.
func TestSaturationIsOneWhereNobodyCanServe(t *testing.T) {
	p := quietPeer(t, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "r0", URL: "http://127.0.0.1:1", Model: "m"}, {Name: "r1", URL: "http://127.0.0.1:2", Model: "m"}}
		c.Admission.ReplicaLimit = 4
	})
	at := metrics.Pool{Model: "m", Role: "both"}
	for _, r := range p.fleet.List() {
		r.OK(time.Now())
	}
	if got := p.path.capacity.saturation(time.Now()); got[at] != 0 {
		t.Errorf("idle: %v", got)
	}
	for i, r := range p.fleet.List() {
		p.loads.SetIntent(r.Stream, true, time.Now().UnixMilli())
		if got := p.path.capacity.saturation(time.Now()); (got[at] == 1) != (i == 1) {
			t.Errorf("%d drained: %v", i+1, got)
		}
	}
}
