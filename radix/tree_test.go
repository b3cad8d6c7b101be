package radix

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

func ExampleTree() {
	hasher := NewHasher([]byte("mesh secret"))
	prompt := make([]uint32, 48)
	keys := hasher.AppendKeys(nil, hasher.Root("tokens", "", ""), 16, prompt)

	tree := NewTree()
	defer tree.Close()
	h := tree.AddHolder()
	tree.Store(h, 0, 1, keys[:2], []uint64{11, 12}, func(f Fact) Meta { return f.Meta + 1 })

	var m Match
	tree.NewReader().Match(keys, &m)
	for _, h := range m.Holders() {
		fmt.Println("holder", h, "has", m.Depth(ClassGPU, h), "of", len(keys), "blocks")
	}
	// Output: holder 0 has 2 of 3 blocks
}

func TestRemoveRepeatedHandleUpdatesTwice(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	h := tree.AddHolder()
	tree.Store(h, 0, 1, []Key{1, 2}, []uint64{10, 20}, func(Fact) Meta { return 2 })
	calls := 0
	tree.Remove(h, []uint64{10, 20, 10, 10}, func(f Fact) Meta { calls++; return f.Meta - 1 })
	if _, ok := tree.Get(h, 10); ok || calls != 3 || tree.Count(h) != 1 {
		t.Fatalf("handle known: %v, updates %d, facts %d", ok, calls, tree.Count(h))
	}
}

// TestMatchDuringWrites checks under the race detector that facts which do not
// change are seen exactly at every moment, while others come and go around
// them.
func TestMatchDuringWrites(t *testing.T) {
	const readers, rounds = 3, 400
	tree := NewTree()
	defer tree.Close()
	chain := func(seed, n int) (keys []Key) {
		for i := range n {
			keys = append(keys, Key(fold(uint64(seed)*0x9E3779B97F4A7C15+1, uint64(i+1)*0xD6E8FEB86659FD93)))
		}
		return keys
	}
	handles := func(keys []Key) (out []uint64) {
		for _, k := range keys {
			out = append(out, uint64(k))
		}
		return out
	}
	one := func(Fact) Meta { return 1 }
	none := func(Fact) Meta { return 0 }
	stable, busy := tree.AddHolder(), tree.AddHolder()
	for range 70 {
		tree.AddHolder()
	}
	far := tree.AddHolder()
	prefix := chain(0, 40)
	tree.Store(stable, 0, 1, prefix, handles(prefix), one)

	var stop atomic.Bool
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			reader := tree.NewReader()
			var m Match
			for i := 0; !stop.Load(); i++ {
				q := append(prefix[:len(prefix):len(prefix)], chain(i%8+1, 100)...)
				reader.Match(q, &m)
				if got := m.Depth(ClassGPU, stable); got != len(prefix) {
					t.Errorf("stable holder: depth %d, want %d", got, len(prefix))
					return
				}
				if got := m.Depth(ClassAny, busy); got > len(q) {
					t.Errorf("busy holder: depth %d of %d", got, len(q))
					return
				}
			}
		})
	}
	for i := range rounds {
		h := []Holder{busy, far}[i%2]
		tail := chain(i%8+1, 100)
		n := 1 + i*7%100
		tree.Store(h, 0, 1, prefix[:i%40+1], handles(prefix[:i%40+1]), one)
		tree.Store(h, prefix[39], 1, tail[:n], handles(tail[:n]), one)
		switch i % 5 {
		case 0:
			tree.Remove(h, handles(prefix), none)
		case 1:
			tree.Remove(h, handles(tail[:n/2]), none)
		case 2, 3:
			for !tree.Clear(h, 50) {
			}
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestMatchDoesNotAllocate(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	h := tree.AddHolder()
	keys := []Key{1, 2, 3}
	tree.Store(h, 0, 1, keys, []uint64{1, 2, 3}, func(Fact) Meta { return 1 })
	reader := tree.NewReader()
	var m Match
	reader.Match(keys, &m)
	if n := testing.AllocsPerRun(100, func() { reader.Match(keys, &m) }); n != 0 {
		t.Fatalf("%v allocations a match", n)
	}
}

func TestManyReadersAtOnceNeverWait(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	var slots []*slot
	for range 3*slotsPerBlock + 1 {
		slots = append(slots, tree.epochs.enter(0))
	}
	began := tree.epochs.now.Load()
	tree.epochs.now.Add(5)
	if got := tree.epochs.oldest(); got != began {
		t.Fatalf("oldest %d, want %d", got, began)
	}
	for _, s := range slots {
		s.leave()
	}
	if got := tree.epochs.oldest(); got != began+5 {
		t.Fatalf("oldest %d, want %d", got, began+5)
	}
}

// TestTurnoverReusesMemory replaces all chains again and again: neither lines
// nor fact lines nor retired records may pile up.
func TestTurnoverReusesMemory(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	h := tree.AddHolder()
	hasher := NewHasher(nil)
	chain := func(seed int) (keys []Key, handles []uint64) {
		k := hasher.Root(fmt.Sprint(seed))
		for i := range 1 + seed*37%200 {
			k = hasher.Chain(k, TokenHash(i))
			keys, handles = append(keys, k), append(handles, uint64(k))
		}
		return keys, handles
	}
	const alive = 300
	var edge, bytes [2]int64
	for i := range 12 * alive {
		keys, handles := chain(i)
		for at := 0; at < len(keys); at += 20 {
			parent := Key(0)
			if at > 0 {
				parent = keys[at-1]
			}
			end := min(at+20, len(keys))
			tree.Store(h, parent, 1, keys[at:end], handles[at:end], func(Fact) Meta { return 1 })
		}
		if i >= alive {
			_, old := chain(i - alive)
			for len(old) > 0 {
				n := min(1+i%9, len(old))
				tree.Remove(h, old[len(old)-n:], func(Fact) Meta { return 0 })
				old = old[:len(old)-n]
			}
		}
		if st := tree.Stats(); i == 3*alive {
			edge[0], bytes[0] = int64(tree.lines.edge), st.Bytes
		} else if st.Retired > 500 {
			t.Fatalf("%d records are retired and no reader is inside", st.Retired)
		}
	}
	edge[1], bytes[1] = int64(tree.lines.edge), tree.Stats().Bytes
	if edge[1] > edge[0]*3/2 || bytes[1] > bytes[0]*3/2 {
		t.Fatalf("lines used grew from %d to %d, bytes from %d to %d", edge[0], edge[1], bytes[0], bytes[1])
	}
}

// TestAStaleRunEnd stores a run, removes it, lets other chains take its lines,
// and stores what follows the run: it must not be put behind a stranger.
func TestAStaleRunEnd(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	h := tree.AddHolder()
	one := func(Fact) Meta { return 1 }
	const parent, child = 1_000_000, 2_000_000
	for k := range Key(200) { // retired lines are used again by the dozen
		tree.Store(h, 0, 1, []Key{parent + k}, []uint64{uint64(k + 1)}, one)
	}
	for k := range uint64(200) {
		tree.Remove(h, []uint64{k + 1}, func(Fact) Meta { return 0 })
	}
	for k := range Key(400) {
		tree.Store(h, 0, 1, []Key{3_000_000 + k}, []uint64{uint64(k + 1001)}, one)
	}
	var m Match
	for k := range Key(200) {
		tree.Store(h, parent+k, 1, []Key{child + k}, []uint64{uint64(k + 2001)}, one)
		if tree.NewReader().Match([]Key{child + k}, &m); m.Depth(ClassGPU, h) != 1 {
			t.Fatalf("the block behind run %d is not found", k)
		}
	}
}

// TestColumnsAddUp holds the columns against the facts they are made of.
func TestColumnsAddUp(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	h := tree.AddHolder()
	before := map[string]int64{}
	for _, c := range tree.Columns() {
		before[c.Name] = c.Bytes
	}
	for k := range Key(16_000) {
		tree.Store(h, k, 1, []Key{k + 1}, []uint64{uint64(k)}, func(Fact) Meta { return 1 })
	}
	sum := int64(0)
	for _, c := range tree.Columns() {
		grown := c.Bytes - before[c.Name]
		if c.Name == "facts" && (grown < 128*1000 || grown > 192*1000) || c.Name == "keys" && grown < 8*16_000 || grown < 0 {
			t.Errorf("%s: %d bytes more", c.Name, grown)
		}
		sum += c.Bytes
	}
	if st := tree.Stats(); st.Bytes != sum {
		t.Errorf("columns of %d bytes, %d in all", sum, st.Bytes)
	}
}

// TestHoldersGoBack frees the highest holders: a match looks no further than the
// highest one in use, and the lowest free one is used first.
func TestHoldersGoBack(t *testing.T) {
	tree := NewTree()
	const many = 30_000
	for range many {
		tree.AddHolder()
	}
	keys := []Key{5, 6}
	tree.Store(100, 0, 1, keys, []uint64{1, 2}, func(Fact) Meta { return 1 })
	r, m := tree.NewReader(), new(Match)
	r.Match(keys, m)
	if got := m.Depth(ClassGPU, 100); got != 2 || tree.Width() < many/64 {
		t.Fatalf("depth %d, width %d", got, tree.Width())
	}
	for h := range Holder(many) {
		if h != 100 {
			tree.FreeHolder(h)
		}
	}
	if tree.Width() != 2 {
		t.Errorf("a match looks at %d words of 64 holders, want 2", tree.Width())
	}
	r.Match(keys, m)
	if got := m.Depth(ClassGPU, 100); got != 2 || len(m.Holders()) != 1 {
		t.Errorf("depth %d, holders %d", got, m.Holders())
	}
	for want := range Holder(150) {
		if want == 100 {
			continue
		}
		if got := tree.AddHolder(); got != want {
			t.Fatalf("holder %d, want %d", got, want)
		}
	}
}
