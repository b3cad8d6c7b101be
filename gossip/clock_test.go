package gossip_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
)

const hourMs = 3_600_000

// A wall clock that jumps moves no time that the protocol measures: not the one
// in which peers that all join look for others.
func TestAClockThatIsSetEndsNoGrace(t *testing.T) {
	for _, jump := range []int64{hourMs, -hourMs} {
		n := gossiptest.New(gossiptest.Config{Seed: 5, Core: gossip.Config{JoinGrace: 800}})
		a, b := n.Add(), n.Add()
		n.Run(300)
		n.Post(a, gossip.ClockSet{AheadMs: jump})
		n.Run(450)
		if a.Ready || b.Ready {
			t.Fatalf("%+d ms: ready before the grace passed: %s, %s", jump, a.Reason, b.Reason)
		}
		n.Run(100)
		if !a.Ready || !b.Ready {
			t.Fatalf("%+d ms: not ready: %s, %s", jump, a.Reason, b.Reason)
		}
	}
}

// A peer whose wall clock jumps stays in touch: no connection ends, nobody
// takes its word or that of others for old, and how far its clock is off shows
// on both sides.
func TestAClockThatIsSetMakesNobodyDeaf(t *testing.T) {
	for _, jump := range []int64{hourMs, -hourMs} {
		n := gossiptest.New(gossiptest.Config{Seed: 5})
		a, b, c := n.Add(), n.Add(), n.Add()
		e := n.Engine("http://r")
		n.Run(3_000)
		for _, ahead := range []int64{jump, 0} {
			n.Post(a, gossip.ClockSet{AheadMs: ahead})
			n.Run(300) // a heartbeat
			for range 300 {
				n.Run(100)
				e.Ingest(a, true, e.Emit(1)...)
				e.Ingest(b, true, e.Emit(1)...)
				for _, x := range []*gossiptest.Node{a, b, c} {
					for _, p := range x.Core.Peers() {
						off := int64(0)
						switch {
						case x == a:
							off = ahead
						case p.ID == a.ID:
							off = -ahead
						}
						if p.ViewAge > 300 || p.Connected != [gossip.Classes]bool{true, true} || p.ClockOffset < off || p.ClockOffset > off+100 {
							t.Fatalf("%+d ms: %s of %s: view %d ms old, connected %v, offset %d ms, want %d",
								ahead, x.Name, p.Name, p.ViewAge, p.Connected, p.ClockOffset, off)
						}
					}
				}
			}
		}
		for _, x := range []*gossiptest.Node{a, b, c} {
			if len(x.Hangups) > 0 || !x.Ready {
				t.Errorf("%+d ms: %s hung up %v, ready %v: %s", jump, x.Name, x.Hangups, x.Ready, x.Reason)
			}
			for _, ms := range x.Observed {
				if ms > 1_000 {
					t.Errorf("%+d ms: %s saw a slot travel for %v ms", jump, x.Name, ms)
				}
			}
		}
	}
}

// Predictions are in wall time: a peer whose clock was set ahead has its own
// rejected by the others, one whose clock was set back rejects those of others.
func TestPredictionsAreOfTheWallClock(t *testing.T) {
	for _, jump := range []int64{hourMs, -hourMs, 0} {
		n := gossiptest.New(gossiptest.Config{Seed: 5})
		a, b := n.Add(), n.Add()
		n.Run(500)
		n.Post(a, gossip.ClockSet{AheadMs: jump})
		space := crdt.PredictionSpace{Replica: crdt.NewStreamID("http://r", 0), Root: 7}
		predict := func(x *gossiptest.Node, wall int64, key uint64) {
			x.State.Predict(crdt.Prediction{Space: space, Time: wall, TTL: 300_000, Keys: []uint64{key}})
			n.Post(x, gossip.Predicted{})
			n.Run(100)
		}
		predict(a, n.Now()+jump, 1)
		predict(b, n.Now(), 2)
		if got := b.Core.Stats().FuturePredictions; (got > 0) != (jump > 0) {
			t.Errorf("%+d ms at a: b rejected %d predictions", jump, got)
		}
		if got := a.Core.Stats().FuturePredictions; (got > 0) != (jump < 0) {
			t.Errorf("%+d ms at a: a rejected %d predictions", jump, got)
		}
	}
}
