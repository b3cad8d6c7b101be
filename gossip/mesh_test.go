package gossip_test

import (
	"fmt"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/gossip"
	"github.com/banyan-llm/banyan/gossip/gossiptest"
)

func TestSmoke(t *testing.T) {
	n := gossiptest.New(gossiptest.Config{Seed: 1, Trace: func(at int64, x *gossiptest.Node, what string) {
		if testing.Verbose() {
			fmt.Println(at-gossiptest.Start, x.Name, what)
		}
	}})
	a, b := n.Add(), n.Add()
	n.Run(1000)
	id := crdt.NewStreamID("http://r", 0)
	ing := func(x *gossiptest.Node, seqs ...uint64) {
		var sl []crdt.Slot
		for _, q := range seqs {
			sl = append(sl, crdt.Slot{Seq: q, Body: []byte{1}})
		}
		x.State.Apply(&crdt.Delta{Stream: id, Epoch: 1, Anchor: 1, Slots: sl}, n.Now())
		n.Post(x, gossip.Ingested{Stream: id, Epoch: 1, Slots: sl, ReceivedAt: n.Now(), First: true})
	}
	ing(a, 1, 2)
	n.Run(100)
	ing(b, 3)
	n.Run(100)
	c := n.Add()
	n.Run(3000)
	ing(a, 5)
	n.Run(3000)
	for _, x := range n.Nodes() {
		d, _ := x.State.Digest(id)
		fmt.Println(x.Name, d.Context, x.Ready, x.Reason)
	}
	_ = c
}
