package gossip_test

import (
	"testing"
)

// What an owner opened without a slot, because the engine told that it is another
// process, empties every peer at once; one that missed it learns it by digest, and
// one that joins later too.
func TestAnOpenedEpochEmptiesEveryPeer(t *testing.T) {
	n := New(Config{Seed: 3})
	a, b, c := n.Add(), n.Add(), n.Add()
	n.Run(3_000)
	e := n.Engine("http://r")
	e.Calm = true
	e.Ingest(a, true, e.Emit(20)...)
	n.Run(1_000)
	facts := func(x *Node) (epoch, count uint64) {
		d, _ := x.State.Digest(e.Stream)
		return d.Context.Epoch, d.Base.Count
	}
	old, count := facts(b)
	if count == 0 || old != e.Epoch {
		t.Fatalf("epoch %d, %d facts", old, count)
	}
	n.Cut(a, c)
	n.Cut(c, a)
	e.Restart()
	e.Ingest(a, true)
	n.Run(50)
	if epoch, count := facts(b); epoch != e.Epoch || count != 0 {
		t.Errorf("50 ms after, b shows epoch %d, %d facts", epoch, count)
	}
	n.Run(10_000)
	d := n.Add()
	n.Run(10_000)
	for _, x := range []*Node{c, d} {
		if epoch, count := facts(x); epoch != e.Epoch || count != 0 {
			t.Errorf("%s shows epoch %d, %d facts", x.Name, epoch, count)
		}
	}
}
