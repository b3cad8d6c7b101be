package gossip_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// A peer that knows x to be dead takes no register of x from one that does not
// know it yet: digests carry the tables of all (I8, property 13).
func TestRelayedLoadOfADeadPeerIsNotSummed(t *testing.T) {
	n := New(Config{Seed: 1})
	x, y, z := n.Add(), n.Add(), n.Add()
	n.Run(3_000)
	id := crdt.NewStreamID("http://r", 0)
	x.State.SetLoad(id, crdt.Load{Waiting: 5})
	n.Post(x, gossip.LoadChanged{Urgent: true})
	if !n.RunUntil(5_000, func() bool { return y.State.Waiting(id) == 5 && z.State.Waiting(id) == 5 }) {
		t.Fatal("x's load was not heard")
	}
	n.Cut(x, y)
	n.Cut(y, x)
	n.Run(3_300)
	n.Post(y, gossip.MemberDown{Peer: x.ID})
	rounds := z.Core.Stats().Rounds
	for z.Core.Stats().Rounds < rounds+10 {
		n.Break(y, z) // whole tables go when a connection comes up
		n.Run(500)
		if got := y.State.Waiting(id); got != 0 {
			t.Fatalf("y counts %d requests of a peer that is dead to it", got)
		}
	}
	if got := z.State.Waiting(id); got != 5 {
		t.Errorf("z, to which x lives, counts %d, want 5", got)
	}
}

// TestRelayedVitalsOfADeadPeerAreNotKept: what a peer said of itself before it
// died is passed on by those that have not noticed yet; kept, it would stay for
// good and count in the fleet's rate.
func TestRelayedVitalsOfADeadPeerAreNotKept(t *testing.T) {
	n := New(Config{Seed: 1})
	x, y, z := n.Add(), n.Add(), n.Add()
	n.Run(3_000)
	say := func() {
		x.State.JoinVitals(map[crdt.PeerID]crdt.Vitals{x.ID: {Version: uint64(n.Now()), Rate: 5}})
	}
	knows := func(who *Node) bool { return who.State.Vitals()[x.ID].Rate == 5 }
	say()
	if !n.RunUntil(5_000, func() bool { return knows(y) && knows(z) }) {
		t.Fatal("x's vitals were not heard")
	}
	n.Cut(x, y)
	n.Cut(y, x)
	n.Run(3_300)
	n.Post(y, gossip.MemberDown{Peer: x.ID})
	rounds := z.Core.Stats().Rounds
	for z.Core.Stats().Rounds < rounds+10 {
		say()
		n.Run(500)
		if knows(y) {
			t.Fatal("y keeps the vitals of a peer that is dead to it")
		}
		n.Break(y, z) // whole tables go when a connection comes up
		n.Run(500)
		if knows(y) {
			t.Fatal("y keeps the vitals of a peer that is dead to it")
		}
	}
	if !knows(z) {
		t.Error("z, to which x lives, lost its vitals")
	}
}
