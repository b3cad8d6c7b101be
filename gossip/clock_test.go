package gossip_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

const hourMs = 3_600_000

// A wall clock that jumps moves no time that the protocol measures: not the one
// in which peers that all join look for others.
func TestAClockThatIsSetEndsNoGrace(t *testing.T) {
	for _, jump := range []int64{hourMs, -hourMs} {
		n := New(Config{Seed: 5, Core: gossip.Config{JoinGrace: 800}})
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
		n := New(Config{Seed: 5})
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
				for _, x := range []*Node{a, b, c} {
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
		for _, x := range []*Node{a, b, c} {
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

// Predictions are in wall time: of a peer whose clock was set ahead the others
// reject what it predicted before it noticed, and one whose clock was set back
// rejects what they predict.
func TestPredictionsAreOfTheWallClock(t *testing.T) {
	for _, jump := range []int64{hourMs, -hourMs, 0} {
		n := New(Config{Seed: 5})
		a, b, _ := n.Add(), n.Add(), n.Add()
		n.Run(500)
		predict(a, n.Now()+jump, 1)
		n.Post(a, gossip.ClockSet{AheadMs: jump})
		n.Post(a, gossip.Predicted{})
		predict(b, n.Now(), 2)
		n.Post(b, gossip.Predicted{})
		n.Run(100)
		if got := b.Core.Stats().FuturePredictions; (got > 0) != (jump > 0) {
			t.Errorf("%+d ms at a: b rejected %d predictions", jump, got)
		}
		if got := a.Core.Stats().FuturePredictions; (got > 0) != (jump < 0) {
			t.Errorf("%+d ms at a: a rejected %d predictions", jump, got)
		}
	}
}

var predictedSpace = crdt.PredictionSpace{Replica: crdt.NewStreamID("http://r", 0), Root: 7}

// predict books a block at a peer, and tells whether the peer writes any.
func predict(x *Node, wall int64, key uint64) bool {
	before := x.State.Predicted(predictedSpace)
	x.State.Predict(crdt.Prediction{Space: predictedSpace, Time: wall, TTL: 300_000, Keys: []uint64{key}})
	return x.State.Predicted(predictedSpace) > before
}

// A peer whose wall clock is over a second off the median of the live peers'
// predicts nothing until it is right again. Of two nobody knows which is right.
func TestAPeerWhoseClockIsOffPredictsNothing(t *testing.T) {
	for _, c := range []struct {
		peers int
		off   int64 // ms, of the first
		quiet int   // peers that predict nothing
	}{
		{1, 0, 0},
		{1, hourMs, 0},
		{3, 900, 0},
		{3, -900, 0},
		{3, 1_200, 1},
		{3, -1_200, 1},
		{3, hourMs, 1},
		{3, -hourMs, 1},
		{4, 1_200, 1},
		{2, 1_800, 0},
		{2, -1_800, 0},
		{2, 2_200, 2},
		{2, -2_200, 2},
	} {
		n := New(Config{Seed: 5})
		for range c.peers {
			n.Add()
		}
		a := n.Nodes()[0]
		n.Run(500)
		for key, off := range []int64{c.off, 0} {
			n.Post(a, gossip.ClockSet{AheadMs: off})
			n.Run(1_000)
			quiet := 0
			for i, x := range n.Nodes() {
				writes := predict(x, n.Now(), uint64(10*key+i+1))
				if writes != (x.Core.ClockOff() == 0) {
					t.Errorf("%+v: %s predicts %v, its clock is %d ms off", c, x.Name, writes, x.Core.ClockOff())
				}
				if !writes {
					quiet++
				}
			}
			want := c.quiet
			if off == 0 {
				want = 0
			}
			if got := a.Core.ClockOff(); quiet != want || want == 1 && (got < off-100 || got > off+100) {
				t.Errorf("%+v: %+d ms off, %d predict nothing, want %d; the first is off %d ms", c, off, quiet, want, got)
			}
		}
	}
}
