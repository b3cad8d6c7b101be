package radix_test

import (
	"testing"

	"github.com/banyan-llm/banyan/radix"
)

// TestCoveringFindsThePageOfABlock asks for blocks in the middle of pages, of
// strangers, and for one that two pages cover.
func TestCoveringFindsThePageOfABlock(t *testing.T) {
	tree := radix.NewTree()
	defer tree.Close()
	h, other := tree.AddHolder(), tree.AddHolder()
	meta := func(m radix.Meta) radix.Update { return func(radix.Fact) radix.Meta { return m } }
	tree.Store(h, 0, 2, []radix.Key{1, 2, 3, 4}, []uint64{12, 34}, meta(1<<24|1))
	tree.Store(other, 0, 1, []radix.Key{1}, []uint64{9}, meta(1))
	for k, want := range map[radix.Key]uint64{1: 12, 2: 12, 3: 34, 4: 34} {
		if f, pages, ok := tree.Covering(h, k); !ok || pages != 1 || f.Handle != want || f.Meta != 1<<24|1 {
			t.Errorf("block %d: %+v %v %v, want handle %d", k, f, pages, ok, want)
		}
	}
	if _, _, ok := tree.Covering(h, 5); ok {
		t.Error("a block nobody stored is covered")
	}
	if _, _, ok := tree.Covering(other, 2); ok {
		t.Error("another holder's block is covered")
	}
	tree.Store(h, 2, 2, []radix.Key{3, 4}, []uint64{35}, meta(2<<24|1))
	if f, pages, ok := tree.Covering(h, 3); !ok || pages != 2 || f.Handle != 34 {
		t.Errorf("two pages cover it: %+v %v %v", f, pages, ok)
	}
	tree.Remove(h, []uint64{34}, meta(0))
	if f, pages, ok := tree.Covering(h, 3); !ok || pages != 1 || f != (radix.Fact{}) {
		t.Errorf("a page outside of the lines is left: %+v %v %v", f, pages, ok)
	}
	tree.Remove(h, []uint64{35}, meta(0))
	if _, _, ok := tree.Covering(h, 3); ok {
		t.Error("a removed page still covers")
	}
}
