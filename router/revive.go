package router

import (
	"time"

	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/router/kvevents"
)

// Revive brings back an incarnation that the mesh outranked, on the word of
// the tracker that follows it, and tells the others at once: they keep it as a
// shadow too.
func (g *ingest) Revive(r kvevents.Revival) {
	now := g.peer.clock.ms(time.Now())
	d, ok := g.peer.index.Revive(r.Stream, r.Epoch, r.Anew, now)
	if !ok {
		return
	}
	g.peer.log.Warn("an outranked incarnation is back", "stream", r.Stream, "was", r.Epoch, "epoch", d.Epoch, "false alarm", r.Anew)
	if len(d.Slots) > 0 {
		g.peer.mesh.ingested(gossip.Ingested{Stream: r.Stream, Epoch: d.Epoch, Slots: d.Slots, ReceivedAt: now, First: true})
	}
}
