package router

import (
	"slices"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/proxy"
)

// down tells a try that waits for bytes what is known of its replica, and of
// the one that computes its prompt as long as that is under way.
func (p *requestPath) down(target *proxy.Target) proxy.Down {
	t := target.Token.(*ticket)
	down := downOf(t.replica, t.serving)
	if t.lead != nil && !t.lead.ended() {
		down = max(down, downOf(t.lead.replica, t.serving))
	}
	return down
}

// downOf: a mute replica counts as one only while another one serves the model.
// Without that there is nowhere to go.
func downOf(r *fleet.Replica, serving []*fleet.Replica) proxy.Down {
	lost, mute := r.Lost()
	switch {
	case !lost:
		return proxy.NotDown
	case !mute:
		return proxy.DownDead
	case slices.ContainsFunc(serving, (*fleet.Replica).Up):
		return proxy.DownMute
	}
	return proxy.NotDown
}
