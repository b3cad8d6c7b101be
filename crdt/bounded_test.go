package crdt_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

// everySecond feeds n slots with a hole before each.
func everySecond(t rapid.TB, p *peer, n int) (out crdt.Outcome) {
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{3}, []uint64{4})
	for i := range n {
		s, err := b.Slot(uint64(2*i+2), 1)
		if err != nil {
			t.Fatal(err)
		}
		if out = p.Apply(&crdt.Delta{Epoch: 9, Anchor: 1, Slots: []crdt.Slot{s}}, 0); out.Overflow {
			return out
		}
	}
	return out
}

// TestBoundedHoles holds that a peer over its limit of holes forgets, and
// never calls anything lost (I7).
func TestBoundedHoles(t *testing.T) {
	p := wide()
	if out := everySecond(t, p, crdt.MaxHoles); out.Overflow || len(out.Holes) != crdt.MaxHoles {
		t.Fatalf("at the limit: overflow %v, %d holes", out.Overflow, len(out.Holes))
	}
	p = wide()
	if out := everySecond(t, p, crdt.MaxHoles+1); !out.Overflow {
		t.Fatal("over the limit and still there")
	}
	if c := p.Context(); c.Epoch != 9 || c.Floor != 0 || len(c.Above)+len(c.Lost)+len(c.Voids) != 0 || len(p.view.Metas()) != 0 {
		t.Fatalf("not forgotten: %+v", c)
	}
}

// TestBoundedVoids does the same for declared losses.
func TestBoundedVoids(t *testing.T) {
	for _, over := range []int{0, 1} {
		p := wide()
		var out crdt.Outcome
		for range crdt.MaxVoidSpans + over {
			out = lose(t, p)
		}
		if out.Overflow != (over == 1) {
			t.Fatalf("%d void spans over the limit: overflow %v", over, out.Overflow)
		}
	}
}

// lose feeds a slot behind a hole and declares the hole lost.
func lose(t rapid.TB, p *peer) crdt.Outcome {
	var b crdt.Builder
	b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{3}, []uint64{4})
	floor := p.Context().Floor
	s, err := b.Slot(floor+2, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p.Apply(&crdt.Delta{Epoch: 9, Anchor: 1, Slots: []crdt.Slot{s}, Lost: []crdt.Span{{From: floor + 1, To: floor + 1}}}, 0)
}

// TestBoundedAbove holds the bytes above the first hole.
func TestBoundedAbove(t *testing.T) {
	p := newPeer(nil, crdt.Limits{AboveBytes: 1000})
	var out crdt.Outcome
	for seq := uint64(2); seq < 40 && !out.Overflow; seq++ {
		var b crdt.Builder
		b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{seq}, []uint64{4})
		s, err := b.Slot(seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		out = p.Apply(&crdt.Delta{Epoch: 9, Anchor: 1, Slots: []crdt.Slot{s}}, 0)
	}
	if !out.Overflow {
		t.Fatal("slots above a hole are not bounded")
	}
}

// TestNothingIsFoldedWhileASnapshotIsCut stores a block and removes one, of those
// that the cut has been at, while it is at half: what is cut is of one moment.
func TestNothingIsFoldedWhileASnapshotIsCut(t *testing.T) {
	p, q := newPeer(nil, crdt.Limits{}), newPeer(nil, crdt.Limits{})
	l := drawnRun(t, 9)
	p.take(l, 1, 2, 3, 4, 5, 6)
	cut := p.BeginCut()
	cut.Next(3)
	p.take(l, 7, 8)
	var b crdt.Builder
	for handle := range uint64(6) {
		b.Remove(crdt.Op{Main: true}, []uint64{handle + 1})
	}
	removes, err := b.Slot(9, l.slots[8].TS)
	if err != nil {
		t.Fatal(err)
	}
	l.slots[8] = removes
	p.take(l, 9)
	if c := p.Context(); c.Floor != 6 || len(knows(&c)) != 9 {
		t.Fatalf("half cut: %+v", c)
	}
	for !cut.Next(3) {
	}
	q.joinAll(t, overWire(t, cut.Snapshot()), 0)
	checkEqual(t, []*peer{p, q})
	if c := q.Context(); c.Floor != 9 || len(q.view.Metas()) != 2 {
		t.Fatalf("%d facts at %+v", len(q.view.Metas()), c)
	}
}

// TestCutGivesWay feeds a stream in order while a snapshot is cut that nobody
// takes further: the cut is given up before the stream is.
func TestCutGivesWay(t *testing.T) {
	p := newPeer(nil, crdt.Limits{AboveBytes: 1000})
	p.take(onlySlot(t, 9), 1)
	cut := p.BeginCut()
	for seq := uint64(2); seq < 40; seq++ {
		var b crdt.Builder
		b.Store(crdt.Op{Main: true, PerPage: 1, Root: 1}, []uint64{seq + 100}, []uint64{4})
		s, err := b.Slot(seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		if out := p.Apply(&crdt.Delta{Epoch: 9, Anchor: 1, Slots: []crdt.Slot{s}}, 0); out.Overflow || out.NewSlots != 1 {
			t.Fatalf("slot %d: %+v", seq, out)
		}
	}
	if !cut.Next(9) || cut.Snapshot() != nil || p.Context().Floor != 39 || len(p.view.Metas()) != 39 {
		t.Fatalf("the cut goes on: %+v", p.Context())
	}
}

// TestBoundedRing holds the ring's bytes over streams that come, restart, are
// joined and go.
func TestBoundedRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.IntRange(1, 4000).Draw(t, "budget")
		ring := crdt.NewRing(budget)
		peers := []*peer{newPeer(ring, crdt.Limits{}), newPeer(ring, crdt.Limits{})}
		logs := []*engineLog{drawLog(t, 1000, 10, true), drawLog(t, 1010, 10, true)}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "peer")
			p, q := peers[i], peers[1-i]
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0:
				p.Forget()
			case 1:
				p.push(t, q, 500, 0)
			case 2:
				p.snapshotTo(t, q, 0)
			default:
				p.take(logs[rapid.IntRange(0, 1).Draw(t, "log")], rapid.Uint64Range(1, 10).Draw(t, "seq"))
			}
			if ring.Bytes() > budget || ring.Bytes() < 0 {
				t.Fatalf("ring holds %d of %d bytes", ring.Bytes(), budget)
			}
		}
		for _, p := range peers {
			p.Close()
		}
		if ring.Bytes() != 0 {
			t.Fatalf("%d bytes of streams that are gone", ring.Bytes())
		}
	})
}

// TestRingKeepsTheNewestSlots follows two logs through a ring that is always
// full: what is kept of each is the end of it, whole and unchanged.
func TestRingKeepsTheNewestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := crdt.NewRing(rapid.IntRange(200, 8000).Draw(t, "budget"))
		streams, lasts := make([]*crdt.Stream, 2), make([]uint64, 2)
		for i := range streams {
			streams[i] = crdt.NewStream(crdt.StreamConfig{ID: "r", Ring: ring, Open: func(uint64) crdt.Blocks { return &nullBlocks{} }})
		}
		body := func(i int, seq uint64) crdt.Slot {
			var b crdt.Builder
			b.Remove(crdt.Op{Main: true}, make([]uint64, 1+(seq+uint64(i))%5))
			b.Remove(crdt.Op{Main: true}, []uint64{seq})
			s, err := b.Slot(seq, int64(seq))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			i := rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "stream")
			lasts[i]++
			streams[i].Apply(&crdt.Delta{Epoch: 1, Anchor: 1, Slots: []crdt.Slot{body(i, lasts[i])}}, 0)
			for j, s := range streams {
				kept := s.Slots(1, []crdt.Span{{From: 1, To: lasts[j]}}, 1<<20)
				for k := range kept {
					if want := body(j, lasts[j]-uint64(len(kept)-1-k)); kept[k].Hash() != want.Hash() {
						t.Fatalf("stream %d at %d keeps slot %d as %d of %d", j, lasts[j], kept[k].Seq, k, len(kept))
					}
				}
			}
		}
	})
}

// TestBoundedSlot holds the limits of a batch.
func TestBoundedSlot(t *testing.T) {
	var b crdt.Builder
	big := make([]uint64, crdt.MaxSlotBytes/8)
	b.Remove(crdt.Op{Main: true}, big)
	if _, err := b.Bytes(); !errors.Is(err, crdt.ErrSlotTooLarge) {
		t.Errorf("a batch over 8 MiB: %v", err)
	}
	b.Reset()
	b.Remove(crdt.Op{Main: true}, big[:len(big)-1])
	if body, err := b.Bytes(); err != nil || len(body) != crdt.MaxSlotBytes {
		t.Errorf("a batch of 8 MiB: %d bytes, %v", len(body), err)
	}
	b.Reset()
	b.Clear()
	for _, seq := range []uint64{0, crdt.MaxSeq + 1} {
		if _, err := b.Slot(seq, 0); err == nil {
			t.Errorf("slot number %d was taken", seq)
		}
	}
}

// TestSumsAtRecentFloors holds that SumAt remembers the sums of the last
// floors, and nothing from before a clear.
func TestSumsAtRecentFloors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, rapid.IntRange(1, 20).Draw(t, "n"), true)
		p := wide()
		for seq := range l.slots {
			p.take(l, uint64(seq+1))
		}
		for f := range l.slots {
			got, ok := p.SumAt(1000, uint64(f+1))
			if want := sumOf(oracle(l.slots[:f+1])); ok && (got.Count != want.Count || got.Facts != want.Facts) {
				t.Fatalf("sum at %d: %+v, want %+v", f+1, got, want)
			}
		}
		if _, ok := p.SumAt(1000, uint64(len(l.slots))); !ok {
			t.Fatal("no sum at the floor")
		}
	})
}

// TestSumsForgetBeforeClear holds that a sum taken over a void is not offered
// once a clear made the void vanish from the context: a peer without the void
// would call it a divergence.
func TestSumsForgetBeforeClear(t *testing.T) {
	p := wide()
	lose(t, p)
	if _, ok := p.SumAt(9, 2); !ok {
		t.Fatal("no sum at the floor")
	}
	var b crdt.Builder
	b.Clear()
	s, err := b.Slot(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(&crdt.Delta{Epoch: 9, Anchor: 1, Slots: []crdt.Slot{s}}, 0)
	if sum, ok := p.SumAt(9, 2); ok || p.MaxVoid() != 0 {
		t.Fatalf("sum %+v of a floor with a void that the context does not name", sum)
	}
}

// hinted records what a store is told.
type hinted struct {
	*crdttest.MapBlocks
	got []crdt.Hint
}

func (h *hinted) Hint(hints []crdt.Hint) { h.got = append(h.got, hints...) }

// TestHintsReachTheStore holds that keys of parents are handed on.
func TestHintsReachTheStore(t *testing.T) {
	var h *hinted
	s := crdt.NewStream(crdt.StreamConfig{ID: streamID, Open: func(epoch uint64) crdt.Blocks {
		h = &hinted{MapBlocks: crdttest.NewMapBlocks(epoch)}
		return h
	}})
	l := onlySlot(t, 1000)
	s.Apply(&crdt.Delta{Epoch: 1000, Slots: l.slots, Hints: []crdt.Hint{{Handle: 1, Key: 2}}}, 0)
	if len(h.got) != 1 || h.got[0] != (crdt.Hint{Handle: 1, Key: 2}) {
		t.Fatalf("hints %v", h.got)
	}
}
