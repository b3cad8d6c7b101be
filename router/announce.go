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
