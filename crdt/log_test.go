package crdt_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/crdt/crdttest"
)

const streamID = crdt.StreamID("http://10.0.0.1:8000#0")

// engineLog is what one incarnation of an engine said.
type engineLog struct {
	epoch uint64
	slots []crdt.Slot // slot i+1 at i
}

// world is the logs by epoch: the ground truth that no peer sees whole.
type world map[uint64]*engineLog

// drawOp appends one random op.
func drawOp(t *rapid.T, b *crdt.Builder, mode crdt.Mode, clears bool) {
	op := crdt.Op{Mode: mode, Tier: crdt.Tier(rapid.IntRange(0, 2).Draw(t, "tier")), Main: true}
	if rapid.IntRange(0, 9).Draw(t, "group") == 0 {
		op.Main, op.Group = false, 1
	}
	op.Space = uint64(max(0, rapid.IntRange(-3, 2).Draw(t, "space")))
	handles := rapid.SliceOfN(rapid.Uint64Range(1, 10), 1, 4).Draw(t, "handles")
	switch k := rapid.IntRange(0, 20).Draw(t, "kind"); {
	case k == 0 && clears:
		b.Clear()
	case k < 9:
		op.AnySpace = rapid.Bool().Draw(t, "any")
		b.Remove(op, handles)
	default:
		op.PerPage = rapid.IntRange(0, 2).Draw(t, "perPage")
		if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
			op.PerPage = rapid.IntRange(3, crdt.MaxPerPage).Draw(t, "longPage")
		}
		if op.PerPage > 0 && rapid.IntRange(0, 3).Draw(t, "small") == 0 {
			op.Small = 2*op.PerPage - rapid.IntRange(0, 1).Draw(t, "odd")
		}
		op.Reuse = mode == crdt.Counted && rapid.IntRange(0, 3).Draw(t, "reuse") == 0
		if op.HasParent = rapid.Bool().Draw(t, "hasParent"); op.HasParent {
			op.Parent = rapid.Uint64Range(1, 10).Draw(t, "parent")
		} else {
			op.Root = rapid.Uint64Range(100, 102).Draw(t, "root")
		}
		slices.Sort(handles)
		handles = slices.Compact(handles)
		hashes := make([]uint64, op.PerPage*len(handles))
		for i := range hashes {
			hashes[i] = 1000 + handles[i/op.PerPage]*10 + uint64(i%op.PerPage)
		}
		b.Store(op, handles, hashes)
	}
}

// drawLog draws an incarnation of n slots.
func drawLog(t *rapid.T, epoch uint64, n int, clears bool) *engineLog {
	l := &engineLog{epoch: epoch}
	mode := crdt.Mode(rapid.IntRange(0, 1).Draw(t, "mode"))
	for seq := 1; seq <= n; seq++ {
		var b crdt.Builder
		for range rapid.IntRange(1, 3).Draw(t, "ops") {
			drawOp(t, &b, mode, clears)
		}
		// The engine's clock may stand still or be set back.
		s, err := b.Slot(uint64(seq), int64(epoch)*1000+int64(seq-rapid.IntRange(0, 3).Draw(t, "back")))
		if err != nil {
			t.Fatal(err)
		}
		l.slots = append(l.slots, s)
	}
	return l
}

// oracle folds slots in order, in the dumbest way: counts per tier in ints.
func oracle(slots []crdt.Slot) map[crdttest.Entry]crdt.Meta {
	type fact struct {
		copies [crdt.Tiers]int
		seq    uint64
	}
	facts := map[crdttest.Entry]fact{}
	for i := range slots {
		err := slots[i].Ops(func(op *crdt.Op) bool {
			if op.Kind == crdt.OpClear {
				clear(facts)
			}
			for h := 0; op.Main && h < op.Handles.Len(); h++ {
				for _, e := range hit(facts, op, op.Handles.At(h)) {
					f, was := facts[e]
					switch {
					case op.Kind == crdt.OpStore && op.Mode == crdt.Flagged:
						f.copies[op.Tier] = 1
					case op.Kind == crdt.OpStore && op.Reuse && f.copies[op.Tier] > 0:
					case op.Kind == crdt.OpStore:
						f.copies[op.Tier] = min(f.copies[op.Tier]+1, 255)
					case !was:
						continue
					case op.Mode == crdt.Flagged:
						f.copies[op.Tier] = 0
					case f.copies[op.Tier] > 0:
						f.copies[op.Tier]--
					}
					if op.Kind == crdt.OpStore {
						f.seq = slots[i].Seq
					}
					if facts[e] = f; f.copies == [crdt.Tiers]int{} {
						delete(facts, e)
					}
				}
			}
			return true
		})
		if err != nil {
			panic(err)
		}
	}
	out := map[crdttest.Entry]crdt.Meta{}
	for e, f := range facts {
		c := f.copies
		out[e] = crdt.NewMeta(f.seq, uint8(min(c[0], 255)), uint8(min(c[1], 255)), uint8(min(c[2], 255)))
	}
	return out
}

// hit lists the entries that an op names by a handle.
func hit[F any](facts map[crdttest.Entry]F, op *crdt.Op, handle uint64) []crdttest.Entry {
	if !op.AnySpace {
		return []crdttest.Entry{{Handle: handle, Space: op.Space}}
	}
	var out []crdttest.Entry
	for e := range facts {
		if e.Handle == handle {
			out = append(out, e)
		}
	}
	return out
}

// peer is one stream under test with what its readers see.
type peer struct {
	*crdt.Stream
	view *crdttest.View
}

func newPeer(ring *crdt.Ring, limits crdt.Limits) *peer {
	view := &crdttest.View{}
	s := crdt.NewStream(crdt.StreamConfig{ID: streamID, Open: view.Open, Ring: ring, Limits: limits})
	return &peer{s, view}
}

func wide() *peer { return newPeer(nil, crdt.Limits{}) }

// take applies slots of a log.
func (p *peer) take(l *engineLog, seqs ...uint64) crdt.Outcome {
	return p.takeAt(l, 0, seqs...)
}

func (p *peer) takeAt(l *engineLog, nowMs int64, seqs ...uint64) crdt.Outcome {
	return p.takeFrom(l, nowMs, 1, seqs...)
}

// takeFrom applies slots as an owner that met the incarnation at the anchor.
func (p *peer) takeFrom(l *engineLog, nowMs int64, anchor uint64, seqs ...uint64) crdt.Outcome {
	d := crdt.Delta{Stream: streamID, Epoch: l.epoch, Anchor: anchor}
	for _, q := range seqs {
		d.Slots = append(d.Slots, l.slots[q-1])
	}
	return p.Apply(&d, nowMs)
}

// knows is the set of slots that a context stands for.
func knows(c *crdt.Context) map[uint64]bool {
	out := map[uint64]bool{}
	for q := c.Anchor; q <= c.Floor; q++ {
		out[q] = true
	}
	for _, v := range c.Voids {
		for q := v.From; q <= v.To; q++ {
			delete(out, q)
		}
	}
	for _, a := range c.Above {
		for q := a.From; q <= a.To; q++ {
			out[q] = true
		}
	}
	return out
}

// checkPeer holds a peer against the ground truth: what it shows is the fold
// of the slots its context names, and its digest is that of its base.
func (w world) checkPeer(t rapid.TB, name string, p *peer) {
	t.Helper()
	c := p.Context()
	if c.Epoch == 0 {
		return
	}
	if _, rest, err := crdt.DecodeContext(crdt.AppendContext(nil, &c)); err != nil || len(rest) > 0 {
		t.Fatalf("%s: context not canonical: %+v: %v", name, c, err)
	}
	checkNormal(t, name, &c)
	var all, base []crdt.Slot
	known := knows(&c)
	for _, s := range w[c.Epoch].slots {
		if known[s.Seq] {
			all = append(all, s)
			if s.Seq <= c.Floor {
				base = append(base, s)
			}
		}
	}
	if want, got := oracle(all), p.view.Metas(); !maps.Equal(want, got) {
		t.Fatalf("%s: view is not the fold of %+v:\n got %v\nwant %v", name, c, got, want)
	}
	if got, want := p.Digest().Base, sumOf(oracle(base)); got.Count != want.Count || got.Facts != want.Facts {
		t.Fatalf("%s: digest is not that of the base at %d", name, c.Floor)
	}
}

// checkNormal reports what normalise should not have left.
func checkNormal(t rapid.TB, name string, c *crdt.Context) {
	t.Helper()
	for _, set := range [][]crdt.Span{c.Above, c.Lost} {
		if len(set) > 0 && set[0].From <= c.Floor+1 {
			t.Fatalf("%s: floor %d could move: %+v", name, c.Floor, c)
		}
	}
}

func sumOf(facts map[crdttest.Entry]crdt.Meta) (s crdt.Sum) {
	for e, m := range facts {
		s.Count++
		s.Facts ^= crdt.FactHash(e.Handle, e.Space, m)
	}
	return s
}

// push sends what q lacks of p, through the wire; a snapshot if it must.
func (p *peer) push(t rapid.TB, q *peer, maxBytes int, nowMs int64) {
	t.Helper()
	c := q.Context()
	d, ok := p.Since(&c, maxBytes)
	if !ok {
		p.snapshotTo(t, q, nowMs)
		return
	}
	if len(d.Slots)+len(d.Lost) == 0 && d.Epoch <= c.Epoch {
		return
	}
	back, rest, err := crdt.DecodeDelta(crdt.AppendDelta(nil, &d))
	if err != nil || len(rest) > 0 {
		t.Fatalf("delta does not survive the wire: %v", err)
	}
	q.Apply(&back, nowMs)
}

// snapshotTo joins a snapshot of p into q, through the wire.
func (p *peer) snapshotTo(t rapid.TB, q *peer, nowMs int64) {
	t.Helper()
	if s := p.cutAll(t); s != nil {
		q.joinAll(t, s, nowMs)
	}
}

func (p *peer) cutAll(t rapid.TB) *crdt.Snapshot {
	t.Helper()
	cut := p.BeginCut()
	if cut == nil {
		return nil
	}
	for !cut.Next(3) {
	}
	return overWire(t, cut.Snapshot())
}

func overWire(t rapid.TB, s *crdt.Snapshot) *crdt.Snapshot {
	t.Helper()
	back, rest, err := crdt.DecodeSnapshot(crdt.AppendSnapshot(nil, s))
	if err != nil || len(rest) > 0 {
		t.Fatalf("snapshot does not survive the wire: %v", err)
	}
	back.Pieces = s.Pieces
	return &back
}

func (p *peer) joinAll(t rapid.TB, s *crdt.Snapshot, nowMs int64) crdt.Outcome {
	t.Helper()
	j, err := p.BeginJoin(s, nowMs)
	if errors.Is(err, crdt.ErrJoining) {
		return crdt.Outcome{}
	}
	for done := false; err == nil && !done; {
		done, err = j.Next(nowMs)
	}
	if err != nil {
		t.Fatalf("join: %v", err)
	}
	return j.Outcome()
}

// settleAll exchanges until nothing changes; the bound is generous.
func settleAll(t rapid.TB, peers []*peer, nowMs int64) {
	t.Helper()
	for range 12 {
		before := fmt.Sprint(contexts(peers))
		for _, p := range peers {
			for _, q := range peers {
				if p != q {
					p.push(t, q, 1<<20, nowMs)
				}
			}
		}
		if before == fmt.Sprint(contexts(peers)) {
			return
		}
	}
	t.Fatalf("no fixpoint: %+v", contexts(peers))
}

func contexts(peers []*peer) (out []crdt.Context) {
	for _, p := range peers {
		out = append(out, p.Context())
	}
	return out
}

// checkEqual holds that all peers ended in one state.
func checkEqual(t rapid.TB, peers []*peer) {
	t.Helper()
	a := peers[0]
	ca := a.Context()
	for i, p := range peers[1:] {
		if c := p.Context(); !c.Equal(&ca) {
			t.Fatalf("peer %d ended at %+v, peer 0 at %+v", i+1, c, ca)
		}
		if !maps.Equal(a.view.Metas(), p.view.Metas()) {
			t.Fatalf("equal contexts, unequal views")
		}
		if x, y := a.Digest().Base, p.Digest().Base; x.Count != y.Count || x.Facts != y.Facts {
			t.Fatalf("equal contexts, unequal digests")
		}
		if d, ok := a.Since(&ca, 1<<20); !ok || len(d.Slots)+len(d.Lost) > 0 {
			t.Fatalf("equal contexts, and %d slots to send, ok %v", len(d.Slots), ok)
		}
	}
}
