package gossip_test

import (
	"math/rand/v2"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
	"pgregory.net/rapid"
)

// chaos starts k peers and for ms of virtual time lets engines emit, owners
// ingest and everything else go wrong. It leaves cuts in place.
func chaos(n *Net, seed uint64, k int, ms int64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	for range k {
		n.Add()
	}
	n.Run(rng.Int64N(3_000))
	engines := []*Engine{n.Engine("http://r0"), n.Engine("http://r1"), n.Engine("http://r2")}
	missed := make(map[*Engine][]crdt.Slot)
	restarts := make(map[*Engine]int)
	for end := n.Now() + ms; n.Now() < end; {
		e := engines[rng.IntN(len(engines))]
		emit(n, rng, e, missed)
		if rng.IntN(8) == 0 {
			fault(n, rng, k)
		}
		if restarts[e] < 2 && rng.IntN(200) == 0 { // a third in a minute is a quarantine
			restarts[e]++
			missed[e] = nil
			e.Restart()
		}
		n.Run(rng.Int64N(60))
	}
}

// emit lets an engine make some batches; its two owners miss some of them and
// may get them later, by replay.
func emit(n *Net, rng *rand.Rand, e *Engine, missed map[*Engine][]crdt.Slot) {
	live := n.Live()
	first, second := live[rng.IntN(len(live))], live[rng.IntN(len(live))]
	for _, s := range e.Emit(1 + rng.IntN(3)) {
		got := false
		for _, owner := range []*Node{first, second} {
			if rng.IntN(10) > 0 {
				e.Ingest(owner, owner == first, s)
				got = true
			}
		}
		if !got {
			missed[e] = append(missed[e], s)
		}
	}
	if m := missed[e]; len(m) > 0 && rng.IntN(4) == 0 {
		if missed[e] = nil; rng.IntN(3) > 0 {
			e.Ingest(first, true, m...)
			return
		}
		for _, s := range m {
			e.Lose(first, crdt.Span{From: s.Seq, To: s.Seq})
		}
	}
}

// fault breaks, cuts, slows, kills, adds or suspects.
func fault(n *Net, rng *rand.Rand, k int) {
	live := n.Live()
	x, y := live[rng.IntN(len(live))], live[rng.IntN(len(live))]
	if x == y {
		return
	}
	switch rng.IntN(8) {
	case 0:
		n.Break(x, y)
	case 1:
		n.Cut(x, y)
	case 2:
		n.Cut(x, y)
		n.Cut(y, x)
	case 3:
		n.Link(x, y).BytesPer = 1 + rng.IntN(50)
	case 4, 5:
		n.Heal()
	case 6:
		if len(live) > k-1 && len(live) > 2 {
			n.Kill(x)
		} else if len(n.Nodes()) < 2*k {
			n.Add()
		}
	case 7:
		n.Post(x, gossip.MemberDown{Peer: y.ID})
		n.Post(x, gossip.MemberUp{Peer: y.ID, Name: y.Name})
	}
}

// After faults stop, all live peers come to the same contexts, sums and facts.
func TestStrongEventualConsistency(t *testing.T) { // property 10
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		n := New(Config{Seed: seed, JitterMs: 5, CutMs: rapid.Int64Range(0, 300).Draw(t, "cut")})
		chaos(n, seed, rapid.IntRange(2, 5).Draw(t, "peers"), 10_000)
		n.Heal()
		converge(t, n, 60_000)
		if !n.RunUntil(60_000, func() bool { return allReady(n) }) {
			t.Fatalf("not ready: %s", reasons(n))
		}
		for _, x := range n.Live() {
			if s := x.Core.Stats(); len(s.Rejected) > 0 || s.StagedBytes > 0 {
				t.Fatalf("%s rejected %v, holds %d staged bytes", x.Name, s.Rejected, s.StagedBytes)
			}
		}
	})
}

// smallRing makes rings so short that latecomers need snapshots.
var smallRing = gossiptest.StateConfig{RingBytes: 1_000}
