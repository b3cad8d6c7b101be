package gossip_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// A connection replaced or broken at any moment of a repair costs no more than
// asking again over the next one: nobody waits for an answer that went the way
// of its connection, or for the next digest.
func TestRepairGoesOnOverTheNextConnection(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 10
	}
	for _, how := range []string{"replaced by a", "replaced by b", "broken"} {
		for class := range gossip.Class(gossip.Classes) {
			for _, bulkMs := range []int64{0, 60} {
				t.Run(fmt.Sprintf("class %d %s, bulk %d ms late", class, how, bulkMs), func(t *testing.T) {
					snaps := 0
					for seed := range seeds {
						took, joined := repairOver(t, seed, class, how, bulkMs)
						if snaps += joined; took > 400+20*bulkMs {
							t.Errorf("seed %d: repaired after %d ms", seed, took)
						}
					}
					if snaps < int(seeds) {
						t.Errorf("%d snapshots: the test is about those too", snaps)
					}
				})
			}
		}
	}
}

// repairOver lets b repair 40 streams from a, some by snapshot, ends a
// connection of the two meanwhile, and returns how long all took, in ms, and
// how many snapshots.
func repairOver(t *testing.T, seed uint64, class gossip.Class, how string, bulkMs int64) (int64, int) {
	n, nodes := mesh(t, 2, Config{Seed: seed, JitterMs: 40, CutMs: 5, State: smallRing})
	a, b := nodes[0], nodes[1]
	n.Link(a, b).BulkMs, n.Link(b, a).BulkMs = bulkMs, bulkMs
	n.Run(3_000)
	for i := range 40 {
		e := n.Engine(fmt.Sprintf("http://r%d", i))
		e.Calm = true
		for _, s := range e.Emit(1 + 30*(i%2)) {
			a.State.Apply(&crdt.Delta{Stream: e.Stream, Epoch: e.Epoch, Anchor: 1, Slots: []crdt.Slot{s}}, n.Now())
		}
	}
	if !n.RunUntil(5_000, func() bool { return b.Core.Stats().Wants > 0 }) {
		t.Fatal("b never asks")
	}
	at := n.Now()
	n.Run(rand.New(rand.NewPCG(seed, 7)).Int64N(40 + 4*bulkMs))
	switch how {
	case "replaced by a":
		n.Connect(a, b, class, b.ID)
	case "replaced by b":
		n.Connect(b, a, class, a.ID)
	case "broken":
		n.BreakClass(a, b, class)
	}
	if !n.RunUntil(60_000, func() bool { return difference(n) == "" }) {
		t.Fatalf("seed %d: %s", seed, difference(n))
	}
	took := n.Now() - at
	for _, x := range nodes {
		if s := x.Core.Stats(); s.Dropped["want"]+s.Dropped["stage"] > 0 || len(s.Rejected) > 0 {
			t.Errorf("seed %d: %s dropped %v, rejected %v", seed, x.Name, s.Dropped, s.Rejected)
		}
	}
	n.Run(20_000)
	for _, x := range nodes {
		if s := x.Core.Stats(); s.Dropped["connection"] > 0 {
			t.Errorf("seed %d: %s hung up on a connection that stands: %v", seed, x.Name, x.Hangups)
		}
	}
	return took, b.Snaps
}
