package router

import (
	"context"

	"github.com/banyan-llm/banyan/router/pick"
)

// announce empties the queue of announcements until ctx ends, and once more
// then.
func announce(ctx context.Context, a *pick.Announcer) {
	a.Serve(true)
	for {
		select {
		case <-a.Wake():
			a.Settle()
		case <-ctx.Done():
			a.Serve(false)
			a.Settle()
			return
		}
	}
}

// note remembers what a dispatch found cached.
func (u *prefixUse) note(n *pick.Notice) {
	if n.Hit >= 0 {
		u.hits.add(n.Chain.Root, n.Chain.Keys, n.Hit)
	}
}
