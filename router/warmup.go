package router

import (
	"context"
	"slices"
	"time"

	"github.com/banyan-llm/banyan/router/fleet"
)

// warmupWithin bounds how long the first requests wait for the models.
const (
	warmupWithin = 2 * time.Second
	warmupTick   = 5 * time.Millisecond
)

// warmUp waits until every replica has told its models or is known to be
// down. A balancer that checks passively sends requests as soon as the port is
// bound; they wait in the kernel instead of being told that nobody serves their
// model. An answered probe alone is not enough: the models come one answer
// later.
func (c *census) warmUp(ctx context.Context) {
	stranger := func(r *fleet.Replica) bool {
		return r.Up() && len(r.Models()) == 0
	}
	for end := time.Now().Add(warmupWithin); ctx.Err() == nil && time.Now().Before(end) && slices.ContainsFunc(c.fleet.List(), stranger); {
		time.Sleep(warmupTick)
	}
}
