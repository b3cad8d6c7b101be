package crdt_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

func TestStreamFoldsPastHoles(t *testing.T) {
	var view crdttest.View
	s := crdt.NewStream(crdt.StreamConfig{ID: "http://r#0", Open: view.Open})
	slot := func(seq uint64, handles ...uint64) crdt.Slot {
		var b crdt.Builder
		b.Store(crdt.Op{Main: true, PerPage: 1, Root: 7}, handles, handles)
		x, err := b.Slot(seq, int64(seq))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	out := s.Apply(&crdt.Delta{Epoch: 5, Anchor: 1, Slots: []crdt.Slot{slot(1, 1), slot(3, 3)}}, 0)
	if out.Floor != 1 || len(out.Holes) != 1 || len(view.Metas()) != 2 {
		t.Fatalf("outcome %+v, view %v", out, view.Metas())
	}
	out = s.Apply(&crdt.Delta{Epoch: 5, Anchor: 1, Slots: []crdt.Slot{slot(2, 2, 4)}}, 0)
	if out.Floor != 3 || len(out.Holes) != 0 || len(view.Metas()) != 4 || s.Digest().Base.Count != 4 {
		t.Fatalf("outcome %+v, view %v", out, view.Metas())
	}
}
