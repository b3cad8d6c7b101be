package radix

import "testing"

func TestTreeSmoke(t *testing.T) {
	tree := NewTree(TreeConfig{})
	defer tree.Close()
	h := tree.AddHolder()
	tree.Store(h, 0, 2, []Key{1, 2, 3, 4}, []uint64{10, 20}, func(Fact) Meta { return 1 })
	var m Match
	tree.NewReader().Match([]Key{1, 2, 3, 9}, &m)
	if len(m.Holders()) != 1 || m.Depth(ClassGPU, h) != 3 {
		t.Fatal(m.Holders(), m.Depth(ClassGPU, h))
	}
	tree.Remove(h, []uint64{10, 10}, func(f Fact) Meta { return f.Meta - 1 })
	tree.NewReader().Match([]Key{1, 2, 3, 9}, &m)
	if len(m.Holders()) != 0 || tree.Count(h) != 1 {
		t.Fatal(m.Holders(), tree.Count(h))
	}
}
