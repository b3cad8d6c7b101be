package crdt_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

func FuzzDecode(f *testing.F) {
	all := codecs()
	for i, c := range all {
		for seed := range 3 {
			f.Add(i, c.append(nil, rapid.Custom(c.draw).Example(seed)))
		}
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		c := all[uint(which)%uint(len(all))]
		v, rest, err := c.decode(data)
		if err != nil {
			return
		}
		back, more, err := c.decode(c.append(nil, v))
		if err != nil || len(more) > 0 || !reflect.DeepEqual(back, v) {
			t.Fatalf("%s: %+v came back as %+v: %v", c.name, v, back, err)
		}
		if len(rest) > len(data) {
			t.Fatal("more left than there was")
		}
	})
}

func FuzzSlot(f *testing.F) {
	for seed := range 8 {
		for _, s := range rapid.Custom(drawSlots).Example(seed) {
			f.Add(s.Body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := crdt.Slot{Seq: 1, Body: body}
		var first crdt.Op
		ok := s.First(&first)
		if s.Validate() != nil {
			return
		}
		any := false
		_ = s.Ops(func(op *crdt.Op) bool {
			if any = op.Handles.Len() > 0; any && !reflect.DeepEqual(*op, first) {
				t.Fatalf("first op %+v, want %+v", first, *op)
			}
			return false
		})
		if ok != any {
			t.Fatalf("first op %v, want %v", ok, any)
		}
		p := wide()
		if out := p.Apply(&crdt.Delta{Epoch: 1, Anchor: 1, Slots: []crdt.Slot{s}}, 0); out.NewSlots != 1 {
			t.Fatalf("valid and not taken: %+v", out)
		}
		if got, want := p.view.Metas(), oracle([]crdt.Slot{s}); !mapsEqual(got, want) {
			t.Fatalf("folds to %v, want %v", got, want)
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	for seed := range 4 {
		l := rapid.Custom(func(t *rapid.T) *engineLog { return drawLog(t, 9, 6, true) }).Example(seed)
		p := wide()
		p.take(l, 1, 2, 3, 5)
		s := p.cutAll(f)
		piece := []byte{}
		if len(s.Pieces) > 0 {
			piece = s.Pieces[0]
		}
		f.Add(crdt.AppendSnapshot(nil, s), piece)
	}
	f.Fuzz(func(t *testing.T, head, piece []byte) {
		s, _, err := crdt.DecodeSnapshot(head)
		if err != nil {
			return
		}
		s.Pieces = [][]byte{piece}
		p := wide()
		p.take(onlySlot(t, 4), 1)
		j, err := p.BeginJoin(&s, 0)
		for done := false; err == nil && !done; {
			done, err = j.Next(0)
		}
		c := p.Context()
		if _, _, err := crdt.DecodeContext(crdt.AppendContext(nil, &c)); err != nil {
			t.Fatalf("left %+v: %v", c, err)
		}
	})
}
