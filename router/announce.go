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

// announced tells the mesh, and the page's use of prefixes, of the blocks that
// a dispatch will leave.
func (p *Peer) announced(n *pick.Notice) {
	p.mesh.predicted()
	if n.Hit >= 0 {
		p.hits.add(n.Chain.Root, n.Chain.Keys, n.Hit)
	}
}
