package gossip_test

import (
	"testing"

	"github.com/banyan-llm/banyan/gossip"
)

// Two fresh peers may meet each other before they meet the mesh. If one called
// itself ready then, it would own streams that it knows nothing of.
func TestFreshPeersThatMeetFirstWaitForTheMesh(t *testing.T) {
	n := New(Config{Seed: 5})
	a := n.Add()
	e := n.Engine("http://r")
	e.Ingest(a, true, e.Emit(40)...)
	n.Run(300)

	b, c := n.AddSilent(), n.AddSilent()
	n.Introduce(b, c)
	n.Run(500)
	for _, x := range []*Node{b, c} {
		if x.Ready {
			t.Fatalf("%s is ready (%s) and knows nothing", x.Name, x.Reason)
		}
	}
	n.Introduce(a, c)
	if !n.RunUntil(500, func() bool { return c.Ready }) {
		t.Fatalf("c is not ready: %s", c.Reason)
	}
	// What c learned it tells b, which never met a.
	if !n.RunUntil(500, func() bool { return b.Ready }) {
		t.Fatalf("b is not ready: %s", b.Reason)
	}
	for _, x := range []*Node{b, c} {
		if d, ok := x.State.Digest(e.Stream); x.Reason != "caught up" || !ok || d.Context.Floor != 40 {
			t.Errorf("%s is ready (%s) at floor %d", x.Name, x.Reason, d.Context.Floor)
		}
	}
}

// Where nobody has joined anything the peers found a mesh, after the grace.
func TestFreshPeersFoundAMesh(t *testing.T) {
	n := New(Config{Seed: 5, Core: gossip.Config{JoinGrace: 800}})
	a, b, c := n.Add(), n.Add(), n.Add()
	n.Run(750)
	if a.Ready || b.Ready || c.Ready {
		t.Fatalf("ready before the grace passed: %s, %s, %s", a.Reason, b.Reason, c.Reason)
	}
	n.Run(100)
	if !a.Ready || !b.Ready || !c.Ready {
		t.Fatalf("not ready: %s, %s, %s", a.Reason, b.Reason, c.Reason)
	}
}

// A member may know more than two fresh ones, also one that is not ready because
// it is behind: it is waited for while it is a member, also out of reach.
func TestFreshPeersWaitForAMemberOutOfReach(t *testing.T) {
	for _, ready := range []bool{true, false} {
		n := New(Config{Seed: 5, Core: gossip.Config{JoinGrace: 800}, DetectMs: 8_000})
		a := n.Add()
		n.Run(100)
		n.Kill(a)
		b, c := n.AddSilent(), n.AddSilent()
		n.Introduce(b, c)
		for _, x := range []*Node{b, c} {
			n.Post(x, gossip.MemberUp{Peer: a.ID, Name: a.Name, Ready: ready})
		}
		n.Run(7_000)
		if b.Ready || c.Ready {
			t.Fatalf("a ready %v: ready while a is a member: %s, %s", ready, b.Reason, c.Reason)
		}
		if !n.RunUntil(3_000, func() bool { return b.Ready && c.Ready }) {
			t.Fatalf("a ready %v: not ready after a was taken for dead: %s, %s", ready, b.Reason, c.Reason)
		}
	}
}

// The connection to the only donor may end between its digest and what was
// asked for: the stream is not known then, though nobody is left to be asked.
func TestAFreshPeerWaitsForADonorThatIsCutOff(t *testing.T) {
	n := New(Config{Seed: 5, DelayMs: 40})
	a := n.Add()
	e := n.Engine("http://r")
	e.Ingest(a, true, e.Emit(40)...)
	n.Run(300)
	b := n.Add()
	if !n.RunUntil(500, func() bool { return b.Reason == "catching up" }) {
		t.Fatalf("b is not catching up: %s", b.Reason)
	}
	n.Cut(a, b)
	n.Cut(b, a)
	n.Break(a, b)
	n.Run(4_000)
	if b.Ready {
		t.Fatalf("b is ready (%s) and knows nothing", b.Reason)
	}
	n.Heal()
	if !n.RunUntil(10_000, func() bool { return b.Ready }) {
		t.Fatalf("b is not ready: %s", b.Reason)
	}
	if d, ok := b.State.Digest(e.Stream); !ok || d.Context.Floor != 40 {
		t.Errorf("b is ready (%s) at floor %d", b.Reason, d.Context.Floor)
	}
}
