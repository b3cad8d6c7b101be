package crdt_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

// recipe says which slots a state was built from, so that it can be built
// again: streams are not copied.
type recipe struct {
	anchor uint64
	seqs   []uint64
}

func drawRecipe(t *rapid.T, l *engineLog, anchors bool) recipe {
	r := recipe{anchor: 1}
	if anchors {
		r.anchor = rapid.Uint64Range(1, uint64(len(l.slots))).Draw(t, "anchor")
	}
	r.seqs = rapid.SliceOfNDistinct(rapid.Uint64Range(r.anchor, uint64(len(l.slots))), 1, -1, rapid.ID).Draw(t, "seqs")
	return r
}

func (r recipe) build(l *engineLog) *peer {
	p := wide()
	for _, q := range r.seqs {
		p.Apply(&crdt.Delta{Epoch: l.epoch, Anchor: r.anchor, Slots: []crdt.Slot{l.slots[q-1]}}, 0)
	}
	return p
}

// join brings all of q's state into p, by snapshot or by delta.
func join(t *rapid.T, p, q *peer) *peer {
	if rapid.Bool().Draw(t, "bySnapshot") {
		q.snapshotTo(t, p, 0)
	}
	for range 3 {
		q.push(t, p, 1<<20, 0)
	}
	return p
}

// TestJoinLaws holds for histories without losses; with them the join is not
// associative (doc.go).
func TestJoinLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, rapid.IntRange(1, 12).Draw(t, "n"), true)
		a, b, c := drawRecipe(t, l, false), drawRecipe(t, l, false), drawRecipe(t, l, false)
		w := world{1000: l}
		ab := join(t, a.build(l), b.build(l))
		ba := join(t, b.build(l), a.build(l))
		w.checkPeer(t, "a+b", ab)
		checkEqual(t, []*peer{ab, ba})
		checkEqual(t, []*peer{a.build(l), join(t, a.build(l), a.build(l))})
		left := join(t, join(t, a.build(l), b.build(l)), c.build(l))
		right := join(t, a.build(l), join(t, b.build(l), c.build(l)))
		w.checkPeer(t, "(a+b)+c", left)
		checkEqual(t, []*peer{left, right})
	})
}

// TestStatesThatBeganApartMeet joins states that began at different slots, of
// which snapshots give only bases: whichever way they meet first, exchange ends
// in one state that knows at least what the richer one did.
func TestStatesThatBeganApartMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, rapid.IntRange(1, 12).Draw(t, "n"), rapid.Bool().Draw(t, "clears"))
		a, b := drawRecipe(t, l, true), drawRecipe(t, l, true)
		ab, ba := join(t, a.build(l), b.build(l)), join(t, b.build(l), a.build(l))
		for _, p := range []*peer{ab, ba} {
			world{1000: l}.checkPeer(t, "joined", p)
		}
		settleAll(t, []*peer{ab, ba}, 0)
		checkEqual(t, []*peer{ab, ba})
		c := ab.Context()
		for _, r := range []recipe{a, b} {
			x := r.build(l).Context()
			if had, have := len(knows(&x)), len(knows(&c)); have < had {
				t.Fatalf("%d slots known, %d before: %+v", have, had, c)
			}
		}
	})
}

// TestConflictsHealToTheLargerHash offers two contents of one dot above a hole
// in any order.
func TestConflictsHealToTheLargerHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, 4, false)
		other := drawLog(t, 1000, 4, false)
		if slices.EqualFunc(l.slots[2:3], other.slots[2:3], func(a, b crdt.Slot) bool { return bytes.Equal(a.Body, b.Body) }) {
			t.Skip("equal contents")
		}
		p, q := wide(), wide()
		p.take(l, 1, 3)
		if out := p.take(other, 3); out.Conflicts != 1 {
			t.Fatalf("conflict not counted: %+v", out)
		}
		q.take(l, 1)
		q.take(other, 3)
		q.take(l, 3)
		checkEqual(t, []*peer{p, q})
		p.take(l, 2)
		q.take(l, 2)
		checkEqual(t, []*peer{p, q})
	})
}

// TestDeltaEqualsState cuts a state into deltas in any way, shuffles and
// repeats them.
func TestDeltaEqualsState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, rapid.IntRange(1, 16).Draw(t, "n"), true)
		src := drawRecipe(t, l, false)
		p, q, r := src.build(l), wide(), wide()
		for range 40 { // pulled: what Since cuts, by any number of bytes
			c := q.Context()
			d, ok := p.Since(&c, rapid.IntRange(1, 300).Draw(t, "bytes"))
			if !ok {
				t.Fatalf("the ring holds everything, a snapshot is asked for")
			}
			if len(d.Slots)+len(d.Lost) == 0 {
				break
			}
			q.Apply(&d, 0)
		}
		checkEqual(t, []*peer{p, q})
		for range 5 { // pushed: any split, order and duplication
			order := rapid.Permutation(src.seqs).Draw(t, "order")
			for len(order) > 0 {
				n := rapid.IntRange(1, len(order)).Draw(t, "cut")
				part := slices.Clone(order[:n])
				slices.Sort(part)
				r.take(l, part...)
				order = order[n:]
			}
		}
		checkEqual(t, []*peer{p, r})
	})
}

// TestDeltaAfterTruncation pulls from a ring that may not reach back: either
// the deltas bring everything or a snapshot is asked for.
func TestDeltaAfterTruncation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, rapid.IntRange(1, 16).Draw(t, "n"), true)
		p := newPeer(crdt.NewRing(rapid.IntRange(1, 1500).Draw(t, "ring")), crdt.Limits{})
		q := wide()
		for _, r := range []*peer{p, q} {
			for _, seq := range drawRecipe(t, l, false).seqs {
				r.take(l, seq)
			}
		}
		for range 40 {
			c := q.Context()
			d, ok := p.Since(&c, 200)
			if !ok {
				p.snapshotTo(t, q, 0)
				continue
			}
			if len(d.Slots)+len(d.Lost) == 0 {
				break
			}
			q.Apply(&d, 0)
		}
		pc, qc := p.Context(), q.Context()
		for seq := range knows(&pc) {
			if !qc.Knows(seq) {
				t.Fatalf("slot %d of %+v never came to %+v", seq, pc, qc)
			}
		}
		world{1000: l}.checkPeer(t, "q", q)
	})
}

// TestCopiesOracle counts copies on every tier, past saturation, with clears
// and adds in one batch, for both kinds of engine.
func TestCopiesOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := wide()
		l := &engineLog{epoch: 7}
		for seq := range rapid.Uint64Range(1, 8).Draw(t, "slots") {
			var b crdt.Builder
			for range rapid.IntRange(1, 3).Draw(t, "ops") {
				op := crdt.Op{
					Main: true, PerPage: 1, Root: 1, Mode: crdt.Mode(rapid.IntRange(0, 1).Draw(t, "mode")),
					Tier: crdt.Tier(rapid.IntRange(0, 2).Draw(t, "tier")),
				}
				for range rapid.SampledFrom([]int{1, 2, 3, 140}).Draw(t, "times") {
					switch rapid.SampledFrom([]int{0, 1, 1, 1}).Draw(t, "store") {
					case 0:
						b.Remove(op, []uint64{9})
					default:
						op.Reuse = op.Mode == crdt.Counted && rapid.Bool().Draw(t, "reuse")
						b.Store(op, []uint64{9}, []uint64{1})
					}
				}
				if rapid.IntRange(0, 5).Draw(t, "clear") == 0 {
					b.Clear()
				}
			}
			s, err := b.Slot(seq+1, 1)
			if err != nil {
				t.Fatal(err)
			}
			l.slots = append(l.slots, s)
			p.take(l, seq+1)
			world{7: l}.checkPeer(t, "p", p)
		}
	})
}

// TestCopiesSaturate stores one block 300 times, removes it 255 times, and
// once more.
func TestCopiesSaturate(t *testing.T) {
	m := crdt.Meta(0)
	for i := range uint64(300) {
		m = m.Store(crdt.Counted, crdt.TierCPU, i+1)
	}
	if m != crdt.NewMeta(300, 0, 255, 0) {
		t.Fatalf("after 300 stores: %d copies", m.Copies(crdt.TierCPU))
	}
	for range 256 {
		m = m.Remove(crdt.Counted, crdt.TierCPU)
	}
	if m.Present() || m.Seq() != 300 {
		t.Fatalf("after 256 removals: %#x", m)
	}
}

// TestClearAndAddInOneBatch is the plain case of a clear: what its own batch
// adds stays.
func TestClearAndAddInOneBatch(t *testing.T) {
	var b crdt.Builder
	op := crdt.Op{Main: true, PerPage: 1, Root: 1}
	b.Store(op, []uint64{1}, []uint64{1})
	first, _ := b.Slot(1, 1)
	b.Reset()
	b.Clear()
	b.Store(op, []uint64{2}, []uint64{2})
	second, _ := b.Slot(4, 4)
	p := wide()
	out := p.Apply(&crdt.Delta{Epoch: 1, Anchor: 1, Slots: []crdt.Slot{first, second}}, 0)
	if out.Floor != 4 || len(out.Holes) != 0 {
		t.Errorf("a clear closes the holes below it: %+v", out)
	}
	if p.view.Shown.Get(1, 0).Present() || !p.view.Shown.Get(2, 0).Present() {
		t.Errorf("after clear and add: %v", p.view.Metas())
	}
}

// TestDigestSeesValue changes every field of a fact, and every field of the
// op that makes it: the digest must change whenever the facts do.
func TestDigestSeesValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, s := rapid.Uint64().Draw(t, "handle"), rapid.Uint64().Draw(t, "space")
		c := [3]uint8{rapid.Uint8().Draw(t, "gpu"), rapid.Uint8().Draw(t, "cpu"), rapid.Uint8().Draw(t, "disk")}
		seq := rapid.Uint64Range(1, crdt.MaxSeq).Draw(t, "seq")
		meta := crdt.NewMeta(seq, c[0], c[1], c[2])
		x := rapid.Uint64Min(1).Draw(t, "change")
		d := uint8(rapid.IntRange(1, 255).Draw(t, "copies"))
		for name, other := range map[string]uint64{
			"handle": crdt.FactHash(h^x, s, meta), "space": crdt.FactHash(h, s^x, meta),
			"gpu": crdt.FactHash(h, s, crdt.NewMeta(seq, c[0]+d, c[1], c[2])),
			"cpu": crdt.FactHash(h, s, crdt.NewMeta(seq, c[0], c[1]+d, c[2])), "disk": crdt.FactHash(h, s, crdt.NewMeta(seq, c[0], c[1], c[2]+d)),
			"seq": crdt.FactHash(h, s, crdt.NewMeta(seq^1<<(x%40), c[0], c[1], c[2])),
		} {
			if other == crdt.FactHash(h, s, meta) {
				t.Fatalf("the digest does not see %s", name)
			}
		}
		if crdt.KeyHash(h, x) == crdt.KeyHash(h^1, x) || crdt.KeyHash(h, x) == crdt.KeyHash(h, x+1) {
			t.Fatalf("the key digest does not see a change")
		}
	})
	digest := func(op crdt.Op, seq uint64) crdt.Sum {
		var b crdt.Builder
		op.Main, op.PerPage, op.Root = true, 1, 1
		b.Store(op, []uint64{5}, []uint64{6})
		s, _ := b.Slot(seq, 1)
		p := wide()
		p.Apply(&crdt.Delta{Epoch: 1, Anchor: seq, Slots: []crdt.Slot{s}}, 0)
		return p.Digest().Base
	}
	seen := map[crdt.Sum]string{}
	for name, sum := range map[string]crdt.Sum{
		"plain": digest(crdt.Op{}, 1), "tier": digest(crdt.Op{Tier: 1}, 1), "space": digest(crdt.Op{Space: 3}, 1), "seq": digest(crdt.Op{}, 2),
	} {
		if was := seen[sum]; was != "" {
			t.Errorf("facts that differ in %s and %s have one digest", name, was)
		}
		seen[sum] = name
	}
}

// TestNoLocalDelete lets the ring evict everything and joins snapshots: no
// confirmed fact goes but by the engine's word.
func TestNoLocalDelete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := crdt.NewRing(rapid.IntRange(1, 200).Draw(t, "ring"))
		p, q := newPeer(ring, crdt.Limits{}), newPeer(ring, crdt.Limits{})
		l := drawLog(t, 1000, rapid.IntRange(1, 12).Draw(t, "n"), false)
		for seq := range l.slots {
			for _, r := range []*peer{p, q} {
				r.take(l, uint64(seq+1))
				r.Tick(int64(seq) * 600_000)
				if got, want := r.view.Metas(), oracle(l.slots[:seq+1]); !mapsEqual(got, want) {
					t.Fatalf("after slot %d: %v, want %v", seq+1, got, want)
				}
			}
			p.snapshotTo(t, q, 0)
		}
	})
}

func mapsEqual(a, b map[crdttest.Entry]crdt.Meta) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// TestPureOps holds that encoding reads no state: two peers, whatever they
// did before, pack the same events into equal bytes.
func TestPureOps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var used crdt.Builder
		drawOp(t, &used, crdt.Flagged, true)
		drawOp(t, &used, crdt.Flagged, true)
		used.Reset()
		var fresh crdt.Builder
		l := drawLog(t, 1, 1, true)
		for _, b := range []*crdt.Builder{&used, &fresh} {
			if err := l.slots[0].Ops(func(op *crdt.Op) bool { replay(b, op); return true }); err != nil {
				t.Fatal(err)
			}
		}
		x, err1 := used.Bytes()
		y, err2 := fresh.Bytes()
		if err1 != nil || err2 != nil || !bytes.Equal(x, y) || !bytes.Equal(x, l.slots[0].Body) {
			t.Fatalf("one batch, three encodings:\n%x\n%x\n%x", x, y, l.slots[0].Body)
		}
	})
}

// replay writes a decoded op again.
func replay(b *crdt.Builder, op *crdt.Op) {
	switch op.Kind {
	case crdt.OpStore:
		b.Store(*op, words(op.Handles), words(op.Hashes))
	case crdt.OpRemove:
		b.Remove(*op, words(op.Handles))
	default:
		b.Clear()
	}
}

func words(w crdt.Words) (out []uint64) {
	for i := range w.Len() {
		out = append(out, w.At(i))
	}
	return out
}
