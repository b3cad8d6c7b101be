package gossip_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// Two halves that declared each other dead go on alone and, once membership
// sees them again, come to one state; loads too.
func TestPartitionHealsAfterBothHalvesForgot(t *testing.T) { // property 24, from here on up
	for seed := range uint64(10) {
		n, nodes := mesh(t, 4, Config{Seed: seed, State: smallRing})
		left, right := nodes[:2], nodes[2:]
		across := func(do func(x, y *Node)) {
			for _, x := range left {
				for _, y := range right {
					do(x, y)
					do(y, x)
				}
			}
		}
		across(n.Cut)
		n.Run(3_300)
		across(func(x, y *Node) { n.Post(x, gossip.MemberDown{Peer: y.ID}) })
		e, f := n.Engine("http://e"), n.Engine("http://f")
		for i := range 30 {
			slots := e.Emit(2)
			e.Ingest(left[i%2], true, slots[0])
			e.Ingest(right[i%2], true, slots[1])
			f.Ingest(left[0], true, f.Emit(1)...)
			n.Run(100)
		}
		for i, x := range nodes {
			x.State.SetLoad(e.Stream, crdt.Load{Waiting: int32(i + 1)})
			n.Post(x, gossip.LoadChanged{})
		}
		n.Run(1_000)
		if got := left[0].State.Waiting(e.Stream); got != 1+2 {
			t.Fatalf("seed %d: the left half sees %d waiting, want its own 3", seed, got)
		}
		n.Heal()
		across(func(x, y *Node) { n.Post(x, gossip.MemberUp{Peer: y.ID, Name: y.Name}) })
		converge(t, n, 20_000)
		n.Run(3_000)
		for _, x := range nodes {
			if got := x.State.Waiting(e.Stream); got != 1+2+3+4 {
				t.Errorf("seed %d: %s sees %d waiting, want 10", seed, x.Name, got)
			}
		}
	}
}

// The side that sees the end of a partition first dials and is turned away:
// the other one still takes it for down. Once that side sees it too, it dials
// at once, whichever of both is to dial first.
func TestWhoTurnedAPeerAwayDialsIt(t *testing.T) {
	for seed := range uint64(20) {
		n, nodes := mesh(t, 2, Config{Seed: seed})
		a, b := nodes[0], nodes[1]
		if b.ID.Less(a.ID) {
			a, b = b, a
		}
		n.Cut(a, b)
		n.Cut(b, a)
		n.Run(3_300)
		n.Post(a, gossip.MemberDown{Peer: b.ID})
		n.Post(b, gossip.MemberDown{Peer: a.ID})
		n.Heal()
		n.Run(1_000)
		n.Post(a, gossip.MemberUp{Peer: b.ID, Name: b.Name})
		n.Run(100)
		if open := n.Open(a, b); open != 0 {
			t.Fatalf("seed %d: %d connections to a peer that takes the other for down", seed, open)
		}
		n.Post(b, gossip.MemberUp{Peer: a.ID, Name: a.Name})
		if !n.RunUntil(100, func() bool { return n.Open(a, b) == int(gossip.Classes) }) {
			t.Errorf("seed %d: not connected 100 ms after both saw each other", seed)
		}
	}
}

// Load tables too large for one message are left out of the digest; contexts
// and sums are not.
func TestDigestTooLargeForLoadsStillCarriesContexts(t *testing.T) { // I5
	limits := gossip.Limits{MessageBytes: 8 << 10, FragmentBytes: 1 << 10}
	n, nodes := mesh(t, 2, Config{Seed: 1, Core: gossip.Config{Limits: limits}})
	for i := range 300 {
		nodes[0].State.SetLoad(crdt.NewStreamID("http://replica", i), crdt.Load{Waiting: 1})
	}
	e := n.Engine("http://e")
	e.Ingest(nodes[0], true, e.Emit(2)...)
	n.Run(100)
	c := n.Add()
	n.Run(2_000)
	if !c.Ready {
		t.Errorf("not ready: %s", c.Reason)
	}
}
