package gossip_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
)

// odd makes node i differ from the others.
func odd(i int, change func(*gossip.Config)) Config {
	return Config{Seed: 7, Tweak: func(j int, cfg *gossip.Config) {
		cfg.Label, cfg.Fingerprint = "banyan", 42
		if i == j {
			change(cfg)
		}
	}}
}

func TestHelloRefusesForeigners(t *testing.T) {
	for name, change := range map[string]func(*gossip.Config){
		"another cluster label":                        func(c *gossip.Config) { c.Label = "other" },
		"another fingerprint of hash, grid and secret": func(c *gossip.Config) { c.Fingerprint = 43 },
		"no common protocol version":                   func(c *gossip.Config) { c.MinVersion, c.MaxVersion = 9, 9 },
	} {
		n := New(odd(2, change))
		a, b, c := n.Add(), n.Add(), n.Add()
		n.Run(120_000)
		for _, x := range []*Node{a, b} {
			if len(x.Refused) != 1 || x.Refused[0].Reason != name || x.Refused[0].Peer != c.ID {
				t.Errorf("%s: %s reports %v, want it once", name, x.Name, x.Refused)
			}
			if got := x.Core.Stats().Refused[name]; got < 2 {
				t.Errorf("%s: %s refused %d hellos, want more than one try in two minutes", name, x.Name, got)
			}
		}
		if !connected(a, b) || connected(a, c) || connected(c, a) {
			t.Errorf("%s: the mesh is not a-b alone", name)
		}
	}
}

// A mesh of the version before, which revives and relabels incarnations, and of
// this one stays two meshes, and both sides say why.
func TestTheVersionBeforeIsRefused(t *testing.T) {
	n := New(odd(1, func(c *gossip.Config) { c.MinVersion, c.MaxVersion = 1, 3 }))
	a, b := n.Add(), n.Add()
	n.Run(10_000)
	for x, want := range map[*Node]string{a: "it speaks protocol 1 to 3, this peer 4 to 4", b: "it speaks protocol 4 to 4, this peer 1 to 3"} {
		if len(x.Refused) != 1 || x.Refused[0].Reason != "no common protocol version" || !strings.HasPrefix(x.Refused[0].Detail, want) {
			t.Errorf("%s: %+v", x.Name, x.Refused)
		}
	}
	if connected(a, b) || connected(b, a) {
		t.Error("they talk")
	}
}

func connected(x, y *Node) bool {
	for _, p := range x.Core.Peers() {
		if p.ID == y.ID {
			return p.Connected[gossip.Fast] && p.Connected[gossip.Bulk]
		}
	}
	return false
}

func TestConnectionToItselfIsClosed(t *testing.T) {
	n := New(Config{Seed: 1})
	a := n.Add()
	n.Connect(a, a, gossip.Fast, crdt.PeerID{})
	n.Run(100)
	if !slices.Contains(a.Hangups, "connected to itself") || len(a.Core.Peers()) != 0 {
		t.Errorf("hangups %v, peers %v", a.Hangups, a.Core.Peers())
	}
}

func TestConnectionToAnotherPeerIsClosed(t *testing.T) {
	n := New(Config{Seed: 1})
	a, b, c := n.AddSilent(), n.AddSilent(), n.AddSilent()
	n.Connect(a, b, gossip.Fast, c.ID)
	n.Run(100)
	if !slices.Contains(a.Hangups, "another peer answered") {
		t.Errorf("hangups %v", a.Hangups)
	}
}

// Both dial at once, again and again: one connection of each class stays, and
// both ends agree on which.
func TestDuplicateConnectionsLeaveOne(t *testing.T) {
	for seed := range uint64(20) {
		n := New(Config{Seed: seed, JitterMs: 5})
		a, b := n.AddSilent(), n.AddSilent()
		for range 3 {
			for _, class := range []gossip.Class{gossip.Fast, gossip.Bulk} {
				n.Connect(a, b, class, b.ID)
				n.Connect(b, a, class, a.ID)
			}
		}
		n.Run(500)
		if open := n.Open(a, b); open != gossip.Classes {
			t.Fatalf("seed %d: %d connections stand, want %d", seed, open, gossip.Classes)
		}
		if !connected(a, b) || !connected(b, a) {
			t.Fatalf("seed %d: the ends disagree", seed)
		}
	}
}

// The smaller id dials; if it cannot, the other does after 3 s.
func TestLargerIDDialsLater(t *testing.T) {
	n := New(Config{Seed: 3})
	a, b := n.AddSilent(), n.AddSilent()
	if b.ID.Less(a.ID) {
		a, b = b, a
	}
	n.Post(b, gossip.MemberUp{Peer: a.ID}) // a, the smaller, does not know of b
	n.Run(2_900)
	if connected(a, b) {
		t.Fatal("the larger id dialed at once")
	}
	n.Run(300)
	if !connected(a, b) || !connected(b, a) {
		t.Fatal("the larger id did not dial after 3 s")
	}
}

func TestConnectionWithoutHelloIsClosed(t *testing.T) {
	n := New(Config{Seed: 3, Mangle: func(from, _ *Node, data []byte) []byte {
		if from.Index == 1 {
			return nil
		}
		return data
	}})
	a, b := n.AddSilent(), n.AddSilent()
	n.Cut(b, a)
	n.Connect(a, b, gossip.Fast, crdt.PeerID{})
	n.Run(6_000)
	if !slices.Contains(a.Hangups, "no hello") {
		t.Errorf("hangups %v", a.Hangups)
	}
}
