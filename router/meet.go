package router

import (
	"context"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
)

// meetWithin bounds how long the first requests wait for the first probes.
const (
	meetWithin = 2 * time.Second
	meetTick   = 5 * time.Millisecond
)

// meetReplicas waits until every replica has answered a probe or is known to be
// down: which models there are is not known before. A balancer that checks
// passively sends requests as soon as the port is bound; they wait in the
// kernel instead of being told that nobody serves their model.
func (p *Peer) meetReplicas(ctx context.Context) {
	stranger := func(r *fleet.Replica) bool {
		return r.Up() && len(r.Models()) == 0 && r.Health().Probed.IsZero()
	}
	for end := time.Now().Add(meetWithin); ctx.Err() == nil && time.Now().Before(end) && slices.ContainsFunc(p.fleet.List(), stranger); {
		time.Sleep(meetTick)
	}
}
