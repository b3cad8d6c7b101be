package crdt_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// header is the fixed part of an op.
func header(kind, flags, tier, perPage byte, n uint32, words ...uint64) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{kind, flags, tier, perPage}, n)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// TestBadSlots are refused by Validate, by the decoder and by a stream.
func TestBadSlots(t *testing.T) {
	const main, parent, anySpace, space, group = 1 << 2, 1 << 1, 1 << 3, 1 << 4, 1 << 5
	for name, body := range map[string][]byte{
		"short header":           {1, 0, 0},
		"unknown kind":           header(9, 0, 0, 0, 0),
		"kind zero":              header(0, 0, 0, 0, 0),
		"unknown flag":           header(3, 1<<6, 0, 0, 0),
		"unknown tier":           header(2, main, 3, 0, 1, 5),
		"store of nothing":       header(1, main, 0, 1, 0, 5),
		"store in any space":     header(1, main|anySpace, 0, 0, 1, 5, 6),
		"store without root":     header(1, main, 0, 0, 1),
		"store cut short":        header(1, main|parent, 0, 1, 2, 5, 6, 7, 8),
		"store of 4 billion":     header(1, main, 0, 255, math.MaxUint32, 5, 6),
		"remove of nothing":      header(2, main, 0, 0, 0),
		"remove below a parent":  header(2, main|parent, 0, 0, 1, 5),
		"remove with hashes":     header(2, main, 0, 1, 1, 5, 6),
		"remove cut short":       header(2, main, 0, 0, 2, 5),
		"both a space and any":   header(2, main|anySpace|space, 0, 0, 1, 5, 6),
		"space zero":             header(2, main|space, 0, 0, 1, 0, 6),
		"space cut short":        header(2, main|space, 0, 0, 1),
		"group zero":             append(header(2, main|group, 0, 0, 1), 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8),
		"group cut short":        header(2, main|group, 0, 0, 1),
		"clear of something":     header(3, 0, 0, 0, 1, 5),
		"clear with flags":       header(3, main, 0, 0, 0),
		"clear on a tier":        header(3, 0, 1, 0, 0),
		"something behind it":    append(header(3, 0, 0, 0, 0), 1),
		"second op is not right": append(header(3, 0, 0, 0, 0), header(7, 0, 0, 0, 0)...),
	} {
		s := crdt.Slot{Seq: 1, Body: body}
		if s.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
		if s.Ops(func(*crdt.Op) bool { return true }) == nil {
			t.Errorf("%s: ops decoded", name)
		}
		if _, _, err := crdt.DecodeSlots(crdt.AppendSlots(nil, []crdt.Slot{s}), 0); !errors.Is(err, crdt.ErrCorrupt) {
			t.Errorf("%s: decoded: %v", name, err)
		}
		p := wide()
		p.take(onlySlot(t, 5), 1)
		for _, epoch := range []uint64{5, 6} {
			d := crdt.Delta{Epoch: epoch, Anchor: 1, Slots: []crdt.Slot{{Seq: 2, Body: body}}}
			if out := p.Apply(&d, 0); out.Invalid != 1 || out.NewSlots != 0 {
				t.Errorf("%s: applied: %+v", name, out)
			}
			d.Inspect()
			if out := p.Apply(&d, 0); out.Invalid != 1 || out.NewSlots != 0 {
				t.Errorf("%s: inspected and applied: %+v", name, out)
			}
		}
	}
	for name, slots := range map[string][]crdt.Slot{
		"number zero": {{Seq: 0}}, "number too large": {{Seq: crdt.MaxSeq + 1}}, "twice": {{Seq: 1}, {Seq: 1}}, "falling": {{Seq: 2}, {Seq: 1}},
	} {
		if _, _, err := crdt.DecodeSlots(crdt.AppendSlots(nil, slots), 0); !errors.Is(err, crdt.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := crdt.DecodeSlots(crdt.AppendSlots(nil, []crdt.Slot{{Seq: 1}, {Seq: 2}}), 1); !errors.Is(err, crdt.ErrCorrupt) {
		t.Errorf("more slots than allowed: %v", err)
	}
}

// TestBadValues are refused by the decoders: no number that is not finite
// enters a sum, no name is longer than its bound.
func TestBadValues(t *testing.T) {
	nan := math.NaN()
	for name, decode := range map[string]func() error{
		"prefill": func() error {
			_, _, err := crdt.DecodeLoads(crdt.AppendLoads(nil, []crdt.LoadEntry{{Load: crdt.Load{Prefill: math.Inf(1)}}}))
			return err
		},
		"cache use": func() error {
			_, _, err := crdt.DecodeScrapes(crdt.AppendScrapes(nil, map[crdt.StreamID]crdt.Scrape{"a": {KVUse: float32(nan)}}))
			return err
		},
		"rate": func() error {
			_, _, err := crdt.DecodeVitals(crdt.AppendVitals(nil, map[crdt.PeerID]crdt.Vitals{{}: {Rate: nan}}))
			return err
		},
		"flag": func() error {
			b := crdt.AppendIntents(nil, map[crdt.StreamID]crdt.Intent{"": {}})
			b[4+2+8+16] = 2
			_, _, err := crdt.DecodeIntents(b)
			return err
		},
		"long name": func() error {
			b := binary.LittleEndian.AppendUint16(nil, 5000)
			_, _, err := crdt.DecodeDelta(append(b, make([]byte, 6000)...))
			return err
		},
		"name out of range": func() error {
			b := crdt.AppendPredictions(nil, []crdt.Prediction{{}})
			b[4+2+4] = 1
			_, _, err := crdt.DecodePredictions(b)
			return err
		},
		"run longer than its columns": func() error {
			b := crdt.AppendRows(nil, &crdt.Rows{Runs: []crdt.RunHead{{Pages: 2}}, Handle: []uint64{1}, Meta: []crdt.Meta{1}})
			_, _, err := crdt.DecodeRows(b)
			return err
		},
		"column without a run": func() error {
			_, _, err := crdt.DecodeRows(crdt.AppendRows(nil, &crdt.Rows{Handle: []uint64{1}, Meta: []crdt.Meta{1}}))
			return err
		},
	} {
		if err := decode(); !errors.Is(err, crdt.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := crdt.NewStreamID("http://r:8000/", 3); got != "http://r:8000#3" {
		t.Errorf("stream id %q", got)
	}
	if got := (crdt.PeerID{0xab}).String(); got != "ab000000000000000000000000000000" {
		t.Errorf("peer id %q", got)
	}
}

// TestBuilderRefuses what no engine says.
func TestBuilderRefuses(t *testing.T) {
	for name, build := range map[string]func(*crdt.Builder){
		"hashes missing": func(b *crdt.Builder) { b.Store(crdt.Op{PerPage: 2}, []uint64{1}, []uint64{1}) },
		"negative page":  func(b *crdt.Builder) { b.Store(crdt.Op{PerPage: -1}, []uint64{1}, nil) },
		"page too large": func(b *crdt.Builder) {
			b.Store(crdt.Op{PerPage: crdt.MaxPerPage + 1}, []uint64{1}, make([]uint64, crdt.MaxPerPage+1))
		},
		"unknown tier": func(b *crdt.Builder) { b.Remove(crdt.Op{Tier: 3}, []uint64{1}) },
		"unknown mode": func(b *crdt.Builder) { b.Remove(crdt.Op{Mode: 2}, []uint64{1}) },
	} {
		var b crdt.Builder
		build(&b)
		b.Clear() // nothing makes it right again
		if _, err := b.Slot(1, 0); err == nil {
			t.Errorf("%s: built", name)
		}
		b.Reset()
		b.Clear()
		if s, err := b.Slot(1, 0); err != nil || s.Validate() != nil {
			t.Errorf("%s: not usable after Reset: %v", name, err)
		}
	}
}

// TestAClearDropsWhatWasBeforeIt: a batch of a million clears is one, and what
// did not fit before it does not matter.
func TestAClearDropsWhatWasBeforeIt(t *testing.T) {
	var b, want crdt.Builder
	for range crdt.MaxSlotBytes/8 + 1 {
		b.Clear()
	}
	b.Store(crdt.Op{Main: true, PerPage: 1}, make([]uint64, crdt.MaxSlotBytes/8), make([]uint64, crdt.MaxSlotBytes/8))
	b.Clear()
	b.Store(crdt.Op{Main: true, PerPage: 1, Root: 7}, []uint64{1}, []uint64{2})
	want.Clear()
	want.Store(crdt.Op{Main: true, PerPage: 1, Root: 7}, []uint64{1}, []uint64{2})
	got, err := b.Slot(1, 0)
	if err != nil || got.Validate() != nil {
		t.Fatalf("%v, %v", err, got.Validate())
	}
	if w, err := want.Slot(1, 0); err != nil || string(w.Body) != string(got.Body) {
		t.Errorf("%d bytes and not %d, %v", len(got.Body), len(w.Body), err)
	}
}

// TestBytesOfStrangersAreNoPanic refuses what the wire can say and the tree
// cannot hold, before anything is folded or loaded.
func TestBytesOfStrangersAreNoPanic(t *testing.T) {
	clears := make([]byte, 8)
	clears[0] = byte(crdt.OpClear)
	page := binary.LittleEndian.AppendUint32([]byte{byte(crdt.OpStore), 0, 0, crdt.MaxPerPage + 1}, 1)
	page = append(page, make([]byte, 8*(2+crdt.MaxPerPage+1))...)
	for name, body := range map[string][]byte{"two clears": append(clears, clears...), "a page longer than a line": page} {
		s := crdt.Slot{Seq: 1, Body: body}
		if s.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	rows := crdt.Rows{Runs: []crdt.RunHead{{Pages: 1, PerPage: crdt.MaxPerPage + 1, Linked: true}}, Handle: []uint64{1}, Meta: []crdt.Meta{1}, Value: make([]uint64, crdt.MaxPerPage+1)}
	if _, _, err := crdt.DecodeRows(crdt.AppendRows(nil, &rows)); !errors.Is(err, crdt.ErrCorrupt) {
		t.Errorf("a snapshot with a page longer than a line: %v", err)
	}
}

// TestRealBeatsLost declares spans over known and unknown slots and lets lost
// ones turn up before they are folded over.
func TestRealBeatsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, 10, false)
		p := wide()
		p.take(l, 1, 4, 6, 8)
		p.Declare([]crdt.Span{{From: 3, To: 9}}, 0)
		c := p.Context()
		if c.Floor != 1 || len(c.Above) != 3 || len(c.Lost) != 4 {
			t.Fatalf("declared over known slots: %+v", c)
		}
		world{1000: l}.checkPeer(t, "p", p)
		late := rapid.SampledFrom([]uint64{3, 5, 7, 9}).Draw(t, "late")
		p.take(l, late)
		p.take(l, 2)
		c = p.Context()
		if c.Floor != 9 || !c.Knows(late) || len(c.Voids) != 3 {
			t.Fatalf("slot %d turned up in time: %+v", late, c)
		}
		world{1000: l}.checkPeer(t, "p", p)
	})
}

// TestSlots returns what is kept of the wanted slots, from ring and tail, by
// size.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, 12, false)
		p := wide()
		p.take(l, 1, 2, 3, 4, 7, 8, 10)
		have := map[uint64]bool{1: true, 2: true, 3: true, 4: true, 7: true, 8: true, 10: true}
		from := rapid.Uint64Range(1, 12).Draw(t, "from")
		to := rapid.Uint64Range(from, 14).Draw(t, "to")
		got := p.Slots(1000, []crdt.Span{{From: from, To: to}}, 1<<20)
		i := 0
		for seq := from; seq <= to; seq++ {
			if !have[seq] {
				continue
			}
			if i == len(got) || got[i].Seq != seq {
				t.Fatalf("slots %d to %d: %d missing", from, to, seq)
			}
			i++
		}
		if i != len(got) {
			t.Fatalf("%d slots, want %d", len(got), i)
		}
		if one := p.Slots(1000, []crdt.Span{{From: 2, To: 12}}, 1); len(one) != 1 || one[0].Seq != 2 {
			t.Fatalf("at least one slot whatever its size: %d", len(one))
		}
		if p.Slots(999, []crdt.Span{{From: 1, To: 12}}, 1<<20) != nil {
			t.Fatal("slots of another epoch")
		}
		if seq, ts := p.Last(); seq != 10 || ts != l.slots[9].TS {
			t.Fatalf("last slot %d at %d", seq, ts)
		}
	})
}

// TestUnknownStream answers for a stream that nothing is known of.
func TestUnknownStream(t *testing.T) {
	p := wide()
	c := crdt.Context{Epoch: 5, Anchor: 1, Floor: 3}
	if d, ok := p.Since(&c, 1); !ok || len(d.Slots) != 0 || p.ID() != streamID || d.Stream != streamID {
		t.Error("an unknown stream has nothing to give")
	}
	if seq, ts := p.Last(); seq != 0 || ts != 0 || p.Blocks() != nil || p.MaxVoid() != 0 || p.Holes(9) != nil || p.BeginCut() != nil {
		t.Error("an unknown stream knows something")
	}
	if _, ok := p.SumAt(5, 3); ok || p.Digest().Base != (crdt.Sum{}) {
		t.Error("an unknown stream has a sum")
	}
	if out := p.Declare([]crdt.Span{{From: 1, To: 2}}, 0); out.NewEpoch || p.Epoch() != 0 {
		t.Error("a loss opened a stream")
	}
}

// roomy records what a store is told to make room for.
type roomy struct {
	nullBlocks
	linked []int
	loads  int
}

func (b *roomy) Expect(linked int) (more bool) {
	b.linked = append(b.linked, linked)
	return len(b.linked) < 3
}

func (b *roomy) Load(*crdt.Rows) { b.loads++ }

// TestASnapshotMakesNoMoreRoomThanItsBytes lets a base claim more facts than
// its pieces can hold. The store has its room before it gets anything.
func TestASnapshotMakesNoMoreRoomThanItsBytes(t *testing.T) {
	rows := crdt.Rows{
		Runs:   []crdt.RunHead{{Pages: 3, PerPage: 1, Linked: true}},
		Handle: []uint64{1, 2, 3}, Meta: []crdt.Meta{1, 1, 1}, Value: []uint64{4, 5, 6},
	}
	for claimed, want := range map[uint64]int{0: 0, 2: 2, 6: 6, 1 << 40: 8, 1 << 63: 8} {
		var b roomy
		s := crdt.NewStream(crdt.StreamConfig{ID: streamID, Open: func(uint64) crdt.Blocks { return &b }})
		piece := crdt.AppendRows(nil, &rows)
		j, err := s.BeginJoin(&crdt.Snapshot{
			Stream: streamID, Context: crdt.Context{Epoch: 1, Anchor: 1, Floor: 1},
			Base: crdt.Sum{Count: 6, Linked: claimed}, Pieces: [][]byte{piece, piece},
		}, 0)
		for step := range 4 {
			if err == nil {
				_, err = j.Next(0)
			}
			if err != nil || b.loads != max(0, step-1) {
				t.Fatalf("%d pieces loaded by step %d: %v", b.loads, step, err)
			}
		}
		if !slices.Equal(b.linked, []int{want, want, want}) {
			t.Errorf("%d facts claimed in %d bytes: room for %d, want %d", claimed, 2*len(piece), b.linked, want)
		}
	}
}
