package radix

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is the tree's dumb twin: every answer is computed from plain maps.
type model map[Holder]map[uint64]modelFact

type modelFact struct {
	keys []Key
	meta Meta
}

func (f modelFact) fact(handle uint64) Fact {
	return Fact{Handle: handle, Key: f.keys[len(f.keys)-1], Meta: f.meta, Blocks: len(f.keys)}
}

func (m model) store(h Holder, perPage int, keys []Key, handles []uint64, update Update) {
	for i, handle := range handles {
		next := modelFact{keys: slices.Clone(keys[i*perPage : (i+1)*perPage])}
		old, known := m[h][handle]
		if !known {
			old = next
		}
		if next.meta = update(old.fact(handle)); next.meta.Present() {
			m[h][handle] = next
		} else {
			delete(m[h], handle)
		}
	}
}

func (m model) remove(h Holder, handles []uint64, update Update) {
	for _, handle := range handles {
		f, ok := m[h][handle]
		if !ok {
			continue
		}
		if f.meta = update(f.fact(handle)); f.meta.Present() {
			m[h][handle] = f
		} else {
			delete(m[h], handle)
		}
	}
}

// levels is the level of every block that h holds.
func (m model) levels(h Holder) map[Key]int {
	out := map[Key]int{}
	for _, f := range m[h] {
		for _, k := range f.keys {
			out[k] = max(out[k], Tiers-f.meta.Best())
		}
	}
	return out
}

// world is a forest of chains to store and ask for, with enough forks at odd
// places and long unforked stretches.
type world struct {
	rng    *rand.Rand
	keys   []Key
	parent map[Key]Key
}

func newWorld(rng *rand.Rand, chains int) *world {
	w := &world{rng: rng, parent: map[Key]Key{}}
	for i := range chains {
		at := Key(0)
		if len(w.keys) > 0 && rng.IntN(4) > 0 {
			at = w.keys[rng.IntN(len(w.keys))]
		}
		n := 1 + rng.IntN(50)
		if i == 0 {
			n = 50 // room for the largest page
		}
		for range n {
			k := Key(rng.Uint64() | 1)
			w.parent[k] = at
			w.keys = append(w.keys, k)
			at = k
		}
	}
	return w
}

// path is the chain from its first block down to k.
func (w *world) path(k Key) []Key {
	var out []Key
	for ; k != 0; k = w.parent[k] {
		out = append(out, k)
	}
	slices.Reverse(out)
	return out
}

// run is a random piece of a random chain.
func (w *world) run(perPage int) (parent Key, keys []Key) {
	for {
		path := w.path(w.keys[w.rng.IntN(len(w.keys))])
		pages := len(path) / perPage
		if pages == 0 {
			continue
		}
		n := 1 + w.rng.IntN(pages)
		at := w.rng.IntN(len(path) - n*perPage + 1)
		if w.rng.IntN(3) == 0 {
			at = 0
		}
		if at > 0 && w.rng.IntN(4) > 0 {
			parent = path[at-1]
		}
		return parent, path[at : at+n*perPage]
	}
}

// query is a chain, perhaps cut, perhaps diverging.
func (w *world) query() []Key {
	path := w.path(w.keys[w.rng.IntN(len(w.keys))])
	switch w.rng.IntN(4) {
	case 0:
		path = path[:w.rng.IntN(len(path)+1)]
	case 1:
		// A key names its whole prefix: from a change on, all keys differ.
		for i := w.rng.IntN(len(path)); i < len(path); i++ {
			path[i] = Key(w.rng.Uint64())
		}
	}
	return path
}

// twins drives a tree and its model through one random history.
type twins struct {
	t       *testing.T
	rng     *rand.Rand
	world   *world
	tree    *Tree
	model   model
	holders []Holder
	reader  *Reader
	match   Match
	moves   bool // handles are drawn from a small pool and so move
}

func (w *twins) handle(h Holder, k Key, perPage int) uint64 {
	if w.moves && w.rng.IntN(6) == 0 {
		return uint64(w.rng.IntN(12))
	}
	if w.moves && w.rng.IntN(8) == 0 {
		return uint64(k) + 1 // a second handle for the same page
	}
	return uint64(k)*31 + uint64(perPage) + uint64(h)<<50
}

// updates returns two equal updates for tree and model and a check that both
// were asked the same.
func (w *twins) updates(store bool) (a, b Update, same func()) {
	how, tier, seq := w.rng.IntN(12), w.rng.IntN(Tiers), Meta(w.rng.IntN(3)+1)<<24
	rule := func(f Fact) Meta {
		shift := 8 * tier
		switch {
		case store && how == 0 && f.Handle%3 == 0:
			return 0
		case store && how == 1:
			return f.Meta&(1<<24-1) + 1<<shift + Meta(f.Handle%5)<<24
		case store:
			return f.Meta&(1<<24-1)&^(0xff<<shift) | (f.Meta>>shift&0xff+1)&0xff<<shift | seq
		case how < 6:
			return 0
		case f.Meta>>shift&0xff > 0:
			return f.Meta - 1<<shift
		}
		return f.Meta
	}
	var asked, wanted []Fact
	a = func(f Fact) Meta { asked = append(asked, f); return rule(f) }
	b = func(f Fact) Meta { wanted = append(wanted, f); return rule(f) }
	return a, b, func() {
		w.t.Helper()
		if !slices.Equal(asked, wanted) {
			w.t.Fatalf("update saw %v, want %v", asked, wanted)
		}
	}
}

func (w *twins) step() {
	h := w.holders[w.rng.IntN(len(w.holders))]
	switch op := w.rng.IntN(20); {
	case op < 9:
		perPage := []int{1, 1, 1, 2, 3, 4, 8, 16}[w.rng.IntN(8)]
		parent, keys := w.world.run(perPage)
		var handles []uint64
		for i := perPage - 1; i < len(keys); i += perPage {
			handles = append(handles, w.handle(h, keys[i], perPage))
		}
		a, b, same := w.updates(true)
		w.tree.Store(h, parent, perPage, keys, handles, a)
		w.model.store(h, perPage, keys, handles, b)
		same()
	case op < 19:
		handles := w.someHandles(h)
		a, b, same := w.updates(false)
		w.tree.Remove(h, handles, a)
		w.model.remove(h, handles, b)
		same()
	default:
		if w.rng.IntN(4) == 0 {
			for !w.tree.Clear(h, 1+w.rng.IntN(20)) {
			}
			w.model[h] = map[uint64]modelFact{}
			if w.rng.IntN(2) == 0 {
				w.tree.FreeHolder(h)
				if got := w.tree.AddHolder(); got != h {
					w.t.Fatalf("AddHolder %d, want the freed %d", got, h)
				}
			}
		}
	}
}

// someHandles draws handles to remove: in order or not, some twice, some
// unknown.
func (w *twins) someHandles(h Holder) []uint64 {
	all := w.someHandlesAnyOrder(h)
	all = all[:min(len(all), w.rng.IntN(40))]
	if w.rng.IntN(2) == 0 {
		slices.SortFunc(all, func(a, b uint64) int {
			return len(w.world.path(w.model[h][b].keys[0])) - len(w.world.path(w.model[h][a].keys[0]))
		})
	}
	for range w.rng.IntN(3) {
		all = append(all, w.rng.Uint64())
		all = append(all, all[w.rng.IntN(len(all))])
	}
	return all
}

func (w *twins) checkMatches(n int) {
	w.t.Helper()
	levels := map[Holder]map[Key]int{}
	for _, h := range w.holders {
		levels[h] = w.model.levels(h)
	}
	for range n {
		q := w.world.query()
		w.reader.Match(q, &w.match)
		var want []Holder
		for _, h := range w.holders {
			for c := range Class(Classes) {
				depth := 0
				for depth < len(q) && levels[h][q[depth]] >= Tiers-int(c) {
					depth++
				}
				gpu, cpu, any := w.match.Depths(h)
				if got := w.match.Depth(c, h); got != depth || got != [Classes]int{gpu, cpu, any}[c] {
					w.t.Fatalf("holder %d class %d: depth %d of %d, want %d", h, c, got, len(q), depth)
				}
				if c == ClassAny && depth > 0 {
					want = append(want, h)
				}
			}
		}
		slices.Sort(want)
		if !slices.Equal(want, w.match.Holders()) {
			w.t.Fatalf("holders %v, want %v", w.match.Holders(), want)
		}
	}
}

// checkFacts compares Count, Get, Page and a stepwise enumeration.
func (w *twins) checkFacts(h Holder) {
	w.t.Helper()
	facts := w.model[h]
	if got := w.tree.Count(h); got != len(facts) {
		w.t.Fatalf("count %d, want %d", got, len(facts))
	}
	for handle, f := range facts {
		got, ok := w.tree.Get(h, handle)
		_, keys, meta, ok2 := w.tree.Page(h, handle, nil)
		if !ok || !ok2 || got != f.fact(handle) || !slices.Equal(keys, f.keys) || meta != f.meta {
			w.t.Fatalf("Get %v %v, Page %v %v, want %v", got, ok, keys, meta, f)
		}
	}
	if _, ok := w.tree.Get(h, 0xdeadbeef); ok {
		w.t.Fatal("an unknown handle was found")
	}
	seen := map[uint64]bool{}
	step := 1 + w.rng.IntN(50)
	for cursor := uint64(0); ; {
		cursor = w.tree.Runs(h, cursor, step, func(r Run) { w.checkRun(h, r, seen) })
		if cursor == 0 {
			break
		}
	}
	if len(seen) != len(facts) {
		w.t.Fatalf("Runs gave %d facts, want %d", len(seen), len(facts))
	}
}

func (w *twins) checkRun(h Holder, r Run, seen map[uint64]bool) {
	w.t.Helper()
	if len(r.Keys) != len(r.Handles)*r.PerPage || len(r.Metas) != len(r.Handles) {
		w.t.Fatalf("run %v", r)
	}
	before := r.Parent
	for _, k := range r.Keys {
		if before != 0 && w.world.parent[k] != before {
			w.t.Fatalf("run %v: %d does not follow %d", r, k, before)
		}
		before = k
	}
	for i, handle := range r.Handles {
		want, ok := w.model[h][handle]
		if !ok || seen[handle] || want.meta != r.Metas[i] || !slices.Equal(want.keys, r.Keys[i*r.PerPage:(i+1)*r.PerPage]) {
			w.t.Fatalf("run has %d, want %v", handle, want)
		}
		seen[handle] = true
	}
}

func newTwins(t *testing.T, seed uint64, holders, steps int) *twins {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &twins{t: t, rng: rng, tree: newTree(seed), model: model{}, moves: seed%2 == 1}
	w.world = newWorld(rng, 3+rng.IntN(12))
	w.reader = w.tree.NewReader()
	for range holders {
		h := w.tree.AddHolder()
		if rng.IntN(8) == 0 || h == 0 || int(h) == holders-1 {
			w.holders = append(w.holders, h)
			w.model[h] = map[uint64]modelFact{}
		}
	}
	return w
}

var histories = flag.Int("histories", 60, "random histories of TestTreeEqualsModel")

// TestTreeEqualsModel is the exactness test: random histories of runs, moves,
// removals, clears, page sizes and tiers, against plain maps.
func TestTreeEqualsModel(t *testing.T) {
	for seed := range uint64(*histories) {
		w := newTwins(t, seed, []int{5, 64, 65, 300}[seed%4], 0)
		t.Logf("seed %d", seed)
		for i := range 150 {
			w.step()
			checkInvariants(t, w)
			w.checkMatches(6)
			if i%50 == 49 {
				for _, h := range w.holders {
					w.checkFacts(h)
				}
			}
		}
		w.emptyOut()
		w.tree.Close()
	}
}

// TestLyingRunsDoNoHarm stores what no engine says: runs whose keys repeat, in
// any order, below wrong parents. Matches may then miss blocks, but facts stay
// as told, nothing panics and nothing leaks.
func TestLyingRunsDoNoHarm(t *testing.T) {
	for seed := range uint64(30) {
		w := newTwins(t, seed, 5, 0)
		key := func() Key { return Key(w.rng.IntN(30)) }
		for range 200 {
			h := w.holders[w.rng.IntN(len(w.holders))]
			if w.rng.IntN(3) == 0 {
				handles := w.someHandlesAnyOrder(h)
				a, b, same := w.updates(false)
				w.tree.Remove(h, handles, a)
				w.model.remove(h, handles, b)
				same()
				continue
			}
			perPage := 1 + w.rng.IntN(MaxPerPage)
			handles := make([]uint64, w.rng.IntN(6))
			for i := range handles {
				handles[i] = uint64(w.rng.IntN(40))
			}
			keys := make([]Key, perPage*len(handles))
			for i := range keys {
				keys[i] = key()
			}
			a, b, same := w.updates(true)
			w.tree.Store(h, key(), perPage, keys, handles, a)
			w.model.store(h, perPage, keys, handles, b)
			same()
			w.reader.Match([]Key{key(), key(), key(), key(), key()}, &w.match)
		}
		for _, h := range w.holders {
			for handle, f := range w.model[h] {
				if got, ok := w.tree.Get(h, handle); !ok || got != f.fact(handle) {
					t.Fatalf("seed %d: Get %v %v, want %v", seed, got, ok, f)
				}
			}
			if got := w.tree.Count(h); got != len(w.model[h]) {
				t.Fatalf("seed %d: count %d, want %d", seed, got, len(w.model[h]))
			}
		}
		w.emptyOut()
		w.tree.Close()
	}
}

func (w *twins) someHandlesAnyOrder(h Holder) []uint64 {
	all := slices.Sorted(maps.Keys(w.model[h]))
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:w.rng.IntN(len(all)+1)]
}

// emptyOut clears everything and looks for leaks (I7).
func (w *twins) emptyOut() {
	w.t.Helper()
	for _, h := range w.holders {
		for !w.tree.Clear(h, 100) {
		}
	}
	tr := w.tree
	tr.reclaim(0)
	st := tr.Stats()
	heads := 0
	for _, s := range tr.heads.state {
		heads += s.live
	}
	if st.Facts != 0 || st.Keys != 0 || st.Lines != 0 || st.Sets != 0 || st.Split != 0 || st.Spills != 0 ||
		st.Retired != 0 || len(tr.covers) != 0 || heads != 0 || tr.facts.inUse() != 1 ||
		tr.metas.inUse() != 0 || tr.blocks.used != 0 {
		w.t.Fatalf("left behind: %+v, covers %d, heads %d, fact lines %d, metas %d, slots %d", st,
			len(tr.covers), heads, tr.facts.inUse()-1, tr.metas.inUse(), tr.blocks.used)
	}
}
