package crdt_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// history says what may happen to a mesh of peers of one stream.
type history struct {
	epochs    int // incarnations
	slots     int // per incarnation, at most
	steps     int
	clears    bool
	losses    bool // owners declare losses
	snapshots bool // peers take snapshots though a delta would do
	tinyRing  bool
	apart     bool // owners meet an incarnation at different slots
	shared    bool // a peer's ring is another stream's too
}

// mesh is peers under random events, held against the truth after every step.
type mesh struct {
	h     history
	w     world
	peers []*peer
	ever  []map[dot]bool // slots delivered to each peer
	cuts  []*crdt.Cut    // running, per peer
	joins []*crdt.Joining
	other []*peer // streams that share the peers' rings
	now   int64

	reached map[string]int // what came about; nil: nobody asks
}

type dot struct{ epoch, seq uint64 }

func newMesh(t *rapid.T, h history) *mesh {
	m := &mesh{h: h, w: world{}}
	for e := range rapid.IntRange(1, h.epochs).Draw(t, "epochs") {
		n := rapid.IntRange(h.slots/2, h.slots).Draw(t, "slots")
		m.w[uint64(1000+10*e)] = drawLog(t, uint64(1000+10*e), n, h.clears)
	}
	for range 3 {
		ring := 1 << 20
		if h.tinyRing {
			ring = rapid.IntRange(1, 600).Draw(t, "ring")
		}
		shared := crdt.NewRing(ring)
		m.peers = append(m.peers, newPeer(shared, crdt.Limits{}))
		m.other = append(m.other, newPeer(shared, crdt.Limits{}))
		m.ever = append(m.ever, map[dot]bool{})
	}
	m.cuts, m.joins = make([]*crdt.Cut, 3), make([]*crdt.Joining, 3)
	return m
}

func (m *mesh) step(t *rapid.T) {
	m.now += int64(rapid.IntRange(1, 40_000).Draw(t, "wait"))
	i := rapid.IntRange(0, 2).Draw(t, "peer")
	p := m.peers[i]
	before := p.Context()
	p.Tick(m.now)
	switch k := rapid.IntRange(0, 9).Draw(t, "event"); {
	case k < 5:
		m.ingest(t, i)
	case k < 8:
		j := (i + 1 + rapid.IntRange(0, 1).Draw(t, "to")) % 3
		p.push(t, m.peers[j], rapid.IntRange(1, 2000).Draw(t, "bytes"), m.now)
		m.check(t, j)
	case k == 8 && m.h.losses:
		m.declare(t, i)
	case m.h.snapshots:
		m.snapshot(t, i)
	}
	m.check(t, i)
	m.note()
	after := p.Context()
	if !p.Quarantined() { // then everything is forgotten
		m.inflated(t, &before, &after)
	}
}

// ingest delivers some slots of one incarnation, in any order.
func (m *mesh) ingest(t *rapid.T, i int) {
	l := m.w[uint64(1000+10*rapid.IntRange(0, len(m.w)-1).Draw(t, "epoch"))]
	seqs := rapid.SliceOfN(rapid.Uint64Range(1, uint64(len(l.slots))), 1, 5).Draw(t, "seqs")
	c := m.peers[i].Context()
	if m.h.shared {
		m.other[i].takeAt(l, m.now, seqs...)
		m.w.checkPeer(t, "beside "+string(rune('a'+i)), m.other[i])
	}
	anchor := uint64(1)
	if m.h.apart {
		anchor = rapid.Uint64Range(1, slices.Min(seqs)).Draw(t, "anchor")
	}
	m.peers[i].takeFrom(l, m.now, anchor, seqs...)
	for _, q := range seqs {
		if l.epoch != c.Epoch || q > c.Floor { // a void is not undone by a late slot
			m.ever[i][dot{l.epoch, q}] = true
		}
	}
}

// declare makes a peer call some hole lost.
func (m *mesh) declare(t *rapid.T, i int) {
	if holes := m.peers[i].Holes(10); len(holes) > 0 {
		m.peers[i].Declare([]crdt.Span{rapid.SampledFrom(holes).Draw(t, "hole")}, m.now)
	}
}

// snapshot moves a snapshot between two peers by a few steps at a time, so
// that slots arrive while it is cut and while it is loaded.
func (m *mesh) snapshot(t *rapid.T, i int) {
	if m.cuts[i] == nil {
		m.cuts[i] = m.peers[i].BeginCut()
		return
	}
	if !m.cuts[i].Next(2) {
		return
	}
	s := m.cuts[i].Snapshot()
	m.cuts[i] = nil
	if s == nil {
		return
	}
	j := (i + 1 + rapid.IntRange(0, 1).Draw(t, "taker")) % 3
	if m.joins[j] == nil {
		m.joins[j], _ = m.peers[j].BeginJoin(overWire(t, s), m.now)
	}
	m.check(t, j)
}

// load moves the joins on by one piece each.
func (m *mesh) load(t *rapid.T) {
	for j, join := range m.joins {
		if join == nil {
			continue
		}
		done, err := join.Next(m.now)
		if err != nil {
			t.Fatalf("join: %v", err)
		}
		if done {
			m.joins[j] = nil
		}
		m.check(t, j)
	}
}

// check holds one peer against the truth. While a snapshot is cut slots wait
// above the floor, so only the digest could be checked; it is afterwards.
func (m *mesh) check(t rapid.TB, i int) {
	if m.cuts[i] == nil {
		m.w.checkPeer(t, string(rune('a'+i)), m.peers[i])
	}
	c := m.peers[i].Context()
	for d := range m.ever[i] {
		if d.epoch == c.Epoch && !c.Knows(d.seq) && !m.h.losses && !m.h.apart {
			t.Fatalf("peer %c forgot slot %d", 'a'+i, d.seq)
		}
	}
}

// inflated holds that a context only grows.
func (m *mesh) inflated(t rapid.TB, before, after *crdt.Context) {
	t.Helper()
	if after.Epoch < before.Epoch || after.Epoch == before.Epoch && after.Floor < before.Floor && !m.h.apart {
		t.Fatalf("context fell from %+v to %+v", before, after)
	}
	if after.Epoch != before.Epoch {
		return
	}
	for q := range knows(before) {
		if !after.Knows(q) && !m.h.losses && !m.h.apart {
			t.Fatalf("slot %d forgotten: %+v, %+v", q, before, after)
		}
	}
}

// run plays a history and then heals the mesh.
func (m *mesh) run(t *rapid.T) {
	for range rapid.IntRange(m.h.steps/2, m.h.steps).Draw(t, "steps") {
		m.step(t)
		if rapid.Bool().Draw(t, "load") {
			m.load(t)
		}
		if i := rapid.IntRange(0, 2).Draw(t, "cut"); m.cuts[i] != nil {
			m.snapshot(t, i)
		}
	}
	m.quiet()
	m.now += 10 * 60_000
	for _, p := range m.peers {
		p.Tick(m.now)
	}
	if m.h.epochs > 2 { // the incarnation that runs says something
		m.peers[0].takeAt(m.w[uint64(990+10*len(m.w))], m.now, 1)
	}
	settleAll(t, m.peers, m.now)
	for i := range m.peers {
		m.check(t, i)
	}
	checkEqual(t, m.peers)
}

// quiet gives up what runs in steps.
func (m *mesh) quiet() {
	for i, c := range m.cuts {
		if c != nil {
			c.Abort()
			m.cuts[i] = nil
		}
		if m.joins[i] != nil {
			m.joins[i].Abort()
			m.joins[i] = nil
		}
	}
}

func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newMesh(t, history{epochs: 1, slots: 12, steps: 40, clears: true, snapshots: true}).run(t)
	})
}

// TestStrongEventualConsistency allows everything at once.
func TestStrongEventualConsistency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { everything(t).run(t) })
}

func everything(t *rapid.T) *mesh {
	return newMesh(t, history{epochs: 2, slots: 12, steps: 50, clears: true, losses: true, snapshots: true, tinyRing: true, apart: rapid.Bool().Draw(t, "apart"), shared: true})
}

// TestTheMachineReachesItsCorners counts what histories are drawn to bring
// about, in ones that are the same every time.
func TestTheMachineReachesItsCorners(t *testing.T) {
	reached := map[string]int{}
	histories := rapid.Custom(func(t *rapid.T) bool {
		m := everything(t)
		m.reached = reached
		for _, l := range m.w {
			for i := range l.slots[1:] {
				if then, now := l.slots[i].TS, l.slots[i+1].TS; now < then {
					reached["the engine's clock goes back"]++
				} else if now == then {
					reached["two slots of one time"]++
				}
			}
		}
		m.run(t)
		return true
	})
	const n = 30
	for seed := range n {
		histories.Example(seed)
	}
	for _, corner := range []string{
		"the engine's clock goes back", "two slots of one time", "owners met a process apart",
		"two streams fill a ring", "a ring keeps a slot no more", "a loss is declared",
	} {
		t.Logf("%6d %s", reached[corner], corner)
		if reached[corner] < n/3 {
			t.Errorf("%q came about %d times in %d histories", corner, reached[corner], n)
		}
	}
}

// note counts what came about.
func (m *mesh) note() {
	if m.reached == nil {
		return
	}
	for i, p := range m.peers {
		c := p.Context()
		if next := m.peers[(i+1)%3].Context(); c.Epoch == next.Epoch && c.Anchor != next.Anchor && c.Floor >= c.Anchor && next.Floor >= next.Anchor {
			m.reached["owners met a process apart"]++
		}
		if len(c.Voids)+len(c.Lost) > 0 {
			m.reached["a loss is declared"]++
		}
		all := []crdt.Span{{From: 1, To: 99}}
		mine, others := p.Slots(c.Epoch, all, 1<<20), m.other[i].Slots(m.other[i].Epoch(), all, 1<<20)
		if len(mine) > 0 && len(others) > 0 {
			m.reached["two streams fill a ring"]++
		}
		if m.cuts[i] == nil && len(mine) < len(knows(&c)) {
			m.reached["a ring keeps a slot no more"]++
		}
	}
}

// TestInflation holds growth and canonical form in every step; newMesh's
// checks do the work.
func TestInflation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newMesh(t, history{epochs: 2, slots: 16, steps: 40, clears: true, snapshots: true}).run(t)
	})
}

// TestNoResurrection allows snapshots between slots, truncated rings and new
// epochs: after every step nothing shows that the known slots removed.
func TestNoResurrection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newMesh(t, history{epochs: 2, slots: 14, steps: 50, clears: true, snapshots: true, tinyRing: true}).run(t)
	})
}

// TestEpochStorm restarts the engine so often that streams are quarantined:
// nothing of an older incarnation shows, and calm heals.
func TestEpochStorm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newMesh(t, history{epochs: 6, slots: 8, steps: 50, clears: true, losses: true, snapshots: true, tinyRing: true}).run(t)
	})
}

// TestNoPhantom holds that a healed mesh shows no fact that the engine does
// not hold, if no slot was lost.
func TestNoPhantom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkTruth(t, false) })
}

// TestEqualsTruth holds the same and that no fact is missing.
func TestEqualsTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkTruth(t, true) })
}

func checkTruth(t *rapid.T, ring bool) {
	m := newMesh(t, history{epochs: 1, slots: 20, steps: 30, clears: true, snapshots: true, tinyRing: ring})
	for range rapid.IntRange(15, 40).Draw(t, "steps") {
		m.step(t)
	}
	m.quiet()
	l := m.w[1000]
	for q := range l.slots { // every slot reaches some peer
		m.peers[q%3].takeAt(l, m.now, uint64(q+1))
	}
	settleAll(t, m.peers, m.now)
	checkEqual(t, m.peers)
	if got, want := m.peers[0].view.Metas(), oracle(l.slots); !maps.Equal(got, want) {
		t.Fatalf("not the engine's set:\n got %v\nwant %v", got, want)
	}
}

// TestGapSafety holds that slots past a hole count at once, and that filling
// the hole gives the same as if it had never been.
func TestGapSafety(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, 1000, rapid.IntRange(3, 12).Draw(t, "n"), false)
		w := world{1000: l}
		hole := rapid.Uint64Range(2, uint64(len(l.slots)-1)).Draw(t, "hole")
		p, q := wide(), wide()
		var direct []uint64
		for seq := uint64(1); seq <= uint64(len(l.slots)); seq++ {
			direct = append(direct, seq)
			if seq != hole {
				p.take(l, seq)
				w.checkPeer(t, "p", p)
			}
		}
		if got := p.Holes(9); len(got) != 1 || got[0] != (crdt.Span{From: hole, To: hole}) {
			t.Fatalf("holes %v, want %d", got, hole)
		}
		p.take(l, hole)
		q.take(l, direct...)
		checkEqual(t, []*peer{p, q})
	})
}

// TestHastyLoss declares slots lost that another peer has: the base with fewer
// voids wins everywhere.
func TestHastyLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(3, 14).Draw(t, "n")
		l := drawLog(t, 1000, int(n), false)
		w := world{1000: l}
		a, b, c := wide(), wide(), wide()
		gone := rapid.Uint64Range(1, n-1).Draw(t, "gone")
		for seq := uint64(1); seq <= n; seq++ {
			if seq != gone {
				a.take(l, seq)
			}
			b.take(l, seq)
		}
		a.Declare([]crdt.Span{{From: gone, To: gone}}, 0)
		if a.MaxVoid() != gone || a.Context().Floor != n {
			t.Fatalf("declared %d: %+v", gone, a.Context())
		}
		w.checkPeer(t, "a", a)
		if rapid.Bool().Draw(t, "spread") {
			a.push(t, c, 1<<20, 0)
		}
		settleAll(t, []*peer{a, b, c}, 0)
		checkEqual(t, []*peer{a, b, c})
		if !maps.Equal(a.view.Metas(), oracle(l.slots)) || a.MaxVoid() != 0 {
			t.Fatalf("the hasty declaration did not heal: %+v", a.Context())
		}
	})
}
