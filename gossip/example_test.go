package gossip_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
)

// A core alone: events in, effects out, time as an argument.
func ExampleCore_Step() {
	self := crdt.PeerID{1}
	core, err := gossip.New(gossip.Config{
		Self: self, Name: "a", Label: "banyan",
		State: gossiptest.NewState(self, gossiptest.StateConfig{}),
		Rand:  rand.New(rand.NewPCG(1, 2)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := int64(1_700_000_000_000)
	for _, ev := range []gossip.Event{
		gossip.Tick{},
		gossip.Connected{Conn: 1, Class: gossip.Fast},
		gossip.Received{Conn: 1, Data: []byte("GET / HTTP/1.1\r\n")},
	} {
		for _, e := range core.Step(now, ev) {
			switch e := e.(type) {
			case gossip.Send:
				fmt.Println("send", new(gossip.Describer).Describe(e.Data))
			case gossip.Hangup:
				fmt.Println("hang up:", e.Reason)
			case gossip.Caught:
				fmt.Println("ready", e.Ready, "-", e.Reason)
			}
		}
	}
	// Output:
	// ready false - looking for the mesh
	// send hello a "banyan" versions 4-4
	// hang up: rejected frame: envelope
}
