package crdt_test

import (
	"fmt"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

// Two peers hear different slots of one engine; a delta each way makes them
// equal.
func ExampleStream() {
	slot := func(seq uint64, build func(*crdt.Builder)) crdt.Slot {
		var b crdt.Builder
		build(&b)
		s, err := b.Slot(seq, int64(seq))
		if err != nil {
			panic(err)
		}
		return s
	}
	op := crdt.Op{Main: true, PerPage: 1, Root: 7}
	stored := slot(1, func(b *crdt.Builder) { b.Store(op, []uint64{11, 12}, []uint64{1, 2}) })
	removed := slot(2, func(b *crdt.Builder) { b.Remove(op, []uint64{12}) })

	open := func(epoch uint64) crdt.Blocks { return crdttest.NewMapBlocks(epoch) }
	a := crdt.NewStream(crdt.StreamConfig{ID: "http://10.0.0.1:8000#0", Open: open})
	b := crdt.NewStream(crdt.StreamConfig{ID: "http://10.0.0.1:8000#0", Open: open})
	a.Apply(&crdt.Delta{Epoch: 1000, Anchor: 1, Slots: []crdt.Slot{stored}}, 0)
	out := b.Apply(&crdt.Delta{Epoch: 1000, Anchor: 1, Slots: []crdt.Slot{removed}}, 0)
	fmt.Println("b lacks", out.Holes)

	known := b.Context()
	delta, _ := a.Since(&known, 1<<20)
	b.Apply(&delta, 0)
	known = a.Context()
	delta, _ = b.Since(&known, 1<<20)
	a.Apply(&delta, 0)
	fmt.Println("facts:", a.Digest().Base.Count, "equal:", a.Digest().Base == b.Digest().Base)
	// Output:
	// b lacks [{1 1}]
	// facts: 1 equal: true
}

// A peer silent for a while counts less, and leaves exactly when it is gone.
func ExampleLoads() {
	l := crdt.NewLoads(crdt.PeerID{1})
	l.SetOwn("r0", crdt.Load{Version: 1, Waiting: 1})
	l.Join(crdt.PeerID{2}, []crdt.LoadEntry{{Replica: "r0", Load: crdt.Load{Version: 5, Waiting: 8}}}, nil)
	fmt.Println(l.Sum("r0").Waiting)
	l.Drop(crdt.PeerID{2})
	fmt.Println(l.Sum("r0").Waiting)
	// Output:
	// 9
	// 1
}

// A dispatch predicts that its blocks will be cached; the prediction fades.
func ExamplePredictions() {
	p := crdt.NewPredictions(crdt.PredictionsConfig{})
	space := crdt.PredictionSpace{Replica: "r0", Root: 7}
	p.Join([]crdt.Prediction{{Space: space, Time: 1000, TTL: 5000, Parent: 7, Keys: []uint64{8, 9}}}, 1000)
	fmt.Println(p.Visible(space, 9, 5999), p.Visible(space, 9, 6000))
	// Output: true false
}
