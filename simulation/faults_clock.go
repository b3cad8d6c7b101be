package simulation

import "github.com/banyan-llm/banyan/gossip"

// peerClock is what a peer reads of its machine's clocks: how far its wall clock
// is ahead of true time, and how far it was when the peer started. As in the
// router all goes by the time at the start and what passed since; only what
// peers compare is in the wall clock's time.
type peerClock struct{ startMs, skewMs int64 }

// now is the time by which the peer measures how long something took.
func (p *faultPeer) now() int64 { return p.run.now + p.clock.startMs }

// at is the time of the peer at a true time.
func (p *faultPeer) at(ms int64) int64 { return ms + p.clock.startMs }

// wall is the time its wall clock shows.
func (p *faultPeer) wall() int64 { return p.run.now + p.clock.skewMs }

// setClock sets the wall clock, which the peer notices.
func (p *faultPeer) setClock(skewMs int64) {
	if p.clock.skewMs != skewMs {
		p.clock.skewMs = skewMs
		p.step(gossip.ClockSet{AheadMs: skewMs - p.clock.startMs})
	}
}
