package crdt_test

import (
	"reflect"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// halves is a stream whose last slot is folded in part, with a shadow, a hole
// and an outcome that waits; in steps of one block or, for comparison, whole.
func halves(t *testing.T, hold int) (p *peer, rest *crdt.Outcome) {
	t.Helper()
	p = wide()
	p.Stream = crdt.NewStream(crdt.StreamConfig{ID: streamID, Open: p.view.Open, Hold: hold})
	before, l := runLog(t, 1000, 2), runLog(t, 1010, 6)
	p.take(before, 1, 2)
	p.take(l, 1)
	p.take(l, 3)
	p.take(l, 5)
	out := p.take(l, 2, 6)
	if rest = p.Unsettled(); rest == nil {
		rest = &out
	}
	if (hold > 0) != (p.Unsettled() != nil) {
		t.Fatalf("unsettled: %v with hold %d", p.Unsettled(), hold)
	}
	return p, rest
}

// ended is the outcome of a call when all of it is folded.
func (p *peer) ended(out crdt.Outcome) crdt.Outcome {
	rest := p.Unsettled()
	if p.Context(); rest != nil {
		return *rest
	}
	return out
}

// runLog is an incarnation of n slots of 20 blocks each.
func runLog(t *testing.T, epoch uint64, n int) *engineLog {
	t.Helper()
	l := &engineLog{epoch: epoch}
	for seq := uint64(1); seq <= uint64(n); seq++ {
		var b crdt.Builder
		words := make([]uint64, 20)
		for i := range words {
			words[i] = 10*seq + uint64(i) + 1 // half of them are the next slot's too
		}
		b.Store(crdt.Op{Main: true, PerPage: 1, Root: epoch}, words, words)
		s, err := b.Slot(seq, int64(epoch*1000+seq))
		if err != nil {
			t.Fatal(err)
		}
		l.slots = append(l.slots, s)
	}
	return l
}

// TestEveryDoorEndsTheFold goes in by each method while a fold is in part: what
// it tells, what readers see then, and what the slots before it came to are
// those of a stream that folds whole (I12).
func TestEveryDoorEndsTheFold(t *testing.T) {
	l := runLog(t, 1010, 6)
	donor := wide()
	donor.take(l, 1, 2, 3, 4, 5)
	better := donor.cutAll(t)
	donor = wide()
	donor.take(l, 1, 4)
	worse := donor.cutAll(t)
	for name, door := range map[string]func(p *peer) any{
		"Apply":   func(p *peer) any { return p.ended(p.take(l, 4)) },
		"Declare": func(p *peer) any { return p.ended(p.Declare([]crdt.Span{{From: 4, To: 4}}, 0)) },
		"Last":    func(p *peer) any { seq, ts := p.Last(); return []any{seq, ts} },
		"MaxVoid": func(p *peer) any { return p.MaxVoid() },
		"Context": func(p *peer) any { return p.Context() },
		"Digest":  func(p *peer) any { return p.Digest() },
		"Holes":   func(p *peer) any { return p.Holes(9) },
		"SumAt":   func(p *peer) any { sum, ok := p.SumAt(1010, 3); return []any{sum, ok} },
		"Since":   func(p *peer) any { d, ok := p.Since(&crdt.Context{Epoch: 1010, Anchor: 1}, 1<<20); return []any{d, ok} },
		"Slots":   func(p *peer) any { return p.Slots(1010, []crdt.Span{{From: 1, To: 9}}, 1<<20) },
		"BeginCut": func(p *peer) any {
			cut := p.BeginCut()
			for !cut.Next(7) {
			}
			return cut.Snapshot().Context
		},
		"a better snapshot": func(p *peer) any { return p.ended(p.joinAll(t, better, 0)) },
		"a worse snapshot":  func(p *peer) any { return p.ended(p.joinAll(t, worse, 0)) },
	} {
		p, rest := halves(t, 1)
		q, want := halves(t, 0)
		if a, b := door(p), door(q); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v in the midst of a fold, %+v after", name, a, b)
		}
		if !reflect.DeepEqual(rest, want) {
			t.Errorf("%s: the slots before came to %+v, not %+v", name, rest, want)
		}
		if a, b := p.Digest(), q.Digest(); !reflect.DeepEqual(a, b) || !reflect.DeepEqual(p.view.Metas(), q.view.Metas()) {
			t.Errorf("%s: %+v, want %+v", name, a, b)
		}
	}
	p, _ := halves(t, 1)
	if p.Forget(); p.Unsettled() != nil || len(p.view.Metas()) != 0 || !p.Step(1) {
		t.Error("what is forgotten is still folded")
	}
}

// TestTheEndOfAJoinEndsTheFold has a slot folded in part while a snapshot is
// loaded.
func TestTheEndOfAJoinEndsTheFold(t *testing.T) {
	l := runLog(t, 1010, 6)
	donor := wide()
	donor.take(l, 1, 2)
	snap := donor.cutAll(t)
	end := func(hold int) (*peer, *crdt.Outcome, crdt.Outcome) {
		p := wide()
		p.Stream = crdt.NewStream(crdt.StreamConfig{ID: streamID, Open: p.view.Open, Hold: hold})
		p.take(l, 1)
		p.Context()
		j, err := p.BeginJoin(snap, 0)
		if err != nil {
			t.Fatal(err)
		}
		out := p.take(l, 2, 3)
		rest := p.Unsettled()
		if rest == nil {
			rest = &out
		}
		for done := false; !done; {
			if done, err = j.Next(0); err != nil {
				t.Fatal(err)
			}
		}
		p.Context()
		return p, rest, j.Outcome()
	}
	p, rest, out := end(1)
	q, want, all := end(0)
	if !reflect.DeepEqual(rest, want) || !reflect.DeepEqual(out, all) {
		t.Errorf("slots %+v and join %+v in steps, %+v and %+v whole", rest, out, want, all)
	}
	if a, b := p.Digest(), q.Digest(); !reflect.DeepEqual(a, b) || !reflect.DeepEqual(p.view.Metas(), q.view.Metas()) {
		t.Errorf("%+v in steps, %+v whole", a, b)
	}
}

// TestSumsOfASettledOverlay looks at the floors that a loss below an overlay
// brings at once: none has the sum of a higher one.
func TestSumsOfASettledOverlay(t *testing.T) {
	l := runLog(t, 1000, 5)
	for _, hold := range []int{0, 1, 2, 3} {
		p := wide()
		p.Stream = crdt.NewStream(crdt.StreamConfig{ID: streamID, Open: p.view.Open, Hold: hold})
		p.take(l, 2, 3, 4, 5)
		p.Declare([]crdt.Span{{From: 1, To: 1}}, 0)
		if c := p.Context(); c.Floor != 5 {
			t.Fatalf("%+v", c)
		}
		for floor := uint64(1); floor <= 5; floor++ {
			want := sumOf(oracle(l.slots[1:floor]))
			if got, ok := p.SumAt(1000, floor); ok && (got.Count != want.Count || got.Facts != want.Facts) {
				t.Errorf("hold %d: sum at %d is %+v, want %+v", hold, floor, got, want)
			}
		}
	}
}
