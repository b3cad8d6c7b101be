package radix

import (
	"slices"
	"testing"
)

// Page must stay whatever the layout: router/index undoes slots with it.
func TestPageReturnsAllKeysOfAFact(t *testing.T) {
	tree := NewTree()
	defer tree.Close()
	h := tree.AddHolder()
	tree.Store(h, 7, 2, []Key{1, 2, 3, 4}, []uint64{10, 20}, func(Fact) Meta { return 5 })
	parent, keys, meta, ok := tree.Page(h, 20, nil)
	if !ok || !slices.Equal(keys, []Key{3, 4}) || meta != 5 || parent != 2 && parent != 0 {
		t.Fatal(parent, keys, meta, ok)
	}
	if _, _, _, ok := tree.Page(h, 30, nil); ok {
		t.Fatal("an unknown handle has a page")
	}
}
