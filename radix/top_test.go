package radix

import (
	"reflect"
	"slices"
	"testing"
)

// share stores a prefix of 40 blocks on three holders, with a tail of 30 on
// each, and returns the prefix.
func share(tree *Tree) []Key {
	hasher := NewHasher(nil)
	chain := func(k Key, seed, n int) (keys []Key, handles []uint64) {
		for i := range n {
			k = hasher.Chain(k, TokenHash(seed*1000+i))
			keys, handles = append(keys, k), append(handles, uint64(k))
		}
		return keys, handles
	}
	prefix, handles := chain(hasher.Root(), 0, 40)
	for i := range 3 {
		h := tree.AddHolder()
		tree.Store(h, 0, 1, prefix, handles, func(Fact) Meta { return 1 })
		tail, tailHandles := chain(prefix[39], i+1, 30)
		tree.Store(h, prefix[39], 1, tail, tailHandles, func(Fact) Meta { return 1 })
	}
	return prefix
}

func TestTopRanksByHoldersTimesBlocks(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	prefix := share(tree)
	top := tree.Top(3)
	if len(top) != 3 {
		t.Fatalf("%d prefixes", len(top))
	}
	for _, p := range top {
		if !slices.Equal(p.Holders, []Holder{0, 1, 2}) || p.Depth > 40 || p.Key != prefix[p.Depth-1] || p.Head != prefix[p.Depth-p.Blocks] {
			t.Fatalf("prefix %+v", p)
		}
		if before := p.Depth - p.Blocks; before > 0 && p.Parent != prefix[before-1] {
			t.Fatalf("prefix %+v hangs below %x, want %x", p, p.Parent, prefix[before-1])
		}
	}

	byKey := map[Key]Prefix{}
	for _, p := range tree.Top(1000) {
		byKey[p.Key] = p
	}
	tails := 0
	for _, p := range byKey {
		above, ok := byKey[p.Under]
		if begins := p.Depth == p.Blocks; begins == ok || ok && above.Depth >= p.Depth {
			t.Errorf("prefix %+v is under %+v", p, above)
		}
		if len(p.Holders) == 1 && len(above.Holders) == 3 {
			tails++
		}
	}
	if tails != 3 {
		t.Errorf("%d tails hang below the shared prefix, want 3: %+v", tails, byKey)
	}

	rank := tree.Rank(3)
	for !rank.Step(1) {
		// A writer works in between.
		tree.Store(0, 0, 1, []Key{9}, []uint64{9}, func(Fact) Meta { return 1 })
	}
	if got := rank.Prefixes(); len(got) != 3 || got[0].Key != top[0].Key {
		t.Fatalf("in steps %+v, at once %+v", got, top)
	}
	stepwise, done := rank.Describe(1)
	for steps := 1; !done; steps++ {
		if stepwise != nil || steps > 100 {
			t.Fatalf("%d steps tell %+v before they are done", steps, stepwise)
		}
		stepwise, done = rank.Describe(1)
	}
	if at := rank.Prefixes(); !reflect.DeepEqual(stepwise, at) || rank.climbs != 0 {
		t.Fatalf("described in steps %+v, at once %+v", stepwise, at)
	}
	for h := range Holder(3) {
		for !tree.Clear(h, 10) {
		}
	}
	if got := rank.Prefixes(); len(got) != 0 {
		t.Fatalf("gone prefixes are still ranked: %+v", got)
	}
	if got := tree.Top(3); len(got) != 0 {
		t.Fatalf("an empty tree has prefixes: %+v", got)
	}
}

func TestRunsJoinLinesOfOneChain(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	share(tree)
	var lengths []int
	if next := tree.Runs(1, 0, 1000, func(r Run) { lengths = append(lengths, len(r.Keys)) }); next != 0 {
		t.Fatalf("cursor %d", next)
	}
	if !slices.Equal(lengths, []int{70}) {
		t.Fatalf("runs of %v blocks, want one of 70", lengths)
	}
}
