package mesh_test

import (
	"fmt"
	"math"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/mesh"
)

// greeter is a core that only notes who is there; *gossip.Core is the real one.
type greeter struct{ met chan string }

func (g greeter) Step(nowMs int64, ev gossip.Event) []gossip.Effect {
	if up, ok := ev.(gossip.MemberUp); ok {
		g.met <- up.Name
	}
	return nil
}

func (g greeter) NextTick() int64                   { return math.MaxInt64 }
func (g greeter) Links([]gossip.Link) []gossip.Link { return nil }

func Example() {
	key, err := mesh.GenerateKey()
	if err != nil {
		panic(err)
	}
	met := make(chan string, 2)
	start := func(name string, id byte, seeds ...string) *mesh.Mesh {
		m, err := mesh.New(mesh.Config{
			Name: name, PeerID: crdt.PeerID{id}, Bind: "127.0.0.1:0", Join: seeds,
			Label: "example", Keyring: []string{key}, Core: greeter{met},
		})
		if err != nil {
			panic(err)
		}
		if err := m.Start(); err != nil {
			panic(err)
		}
		return m
	}
	a := start("a", 1)
	b := start("b", 2, a.Addr())
	one, other := <-met, <-met
	fmt.Println("met:", min(one, other), max(one, other))
	fmt.Println("b goes:", b.Leave(), b.Close())
	fmt.Println("a goes:", a.Close())
	// Output:
	// met: a b
	// b goes: <nil> <nil>
	// a goes: <nil>
}
