package index

import (
	"fmt"
	"testing"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/radix"
)

// BenchmarkMatchHybrid is a look-up of a prompt of 900 blocks that 8 replicas
// hold, with cache groups besides attention: a checkpoint at the end, one only
// at block 100 (every block end behind it is looked at), the last 64 blocks as a
// window. "attention" is the same without another group.
func BenchmarkMatchHybrid(b *testing.B) {
	const blocks, replicas = 900, 8
	for _, c := range []struct {
		name        string
		needs       int // blocks of the other group at a block end; 0: there is none
		first, last int // of its blocks
		want        int
	}{
		{"attention", 0, 0, 0, blocks},
		{"checkpoint at the end", 1, blocks - 1, blocks, blocks},
		{"checkpoint at 100", 1, 99, 100, 100},
		{"window of 64", 64, blocks - 64, blocks, blocks},
	} {
		b.Run(c.name, func(b *testing.B) {
			x := benchIndex()
			defer x.Close()
			handles, hashes := make([]uint64, blocks), make([]uint64, blocks)
			keys, parent := make([]radix.Key, blocks), radix.Key(7)
			for i := range handles {
				handles[i], hashes[i] = uint64(i+1), uint64(i+1)
				parent = x.hasher.Chain(parent, radix.TokenHash(hashes[i]))
				keys[i] = parent
			}
			refs := make([]*Ref, replicas)
			for r := range refs {
				id := crdt.StreamID(fmt.Sprintf("http://h%d#0", r))
				var build crdt.Builder
				build.Store(crdt.Op{Main: true, PerPage: 1, Root: 7}, handles, hashes)
				if c.needs > 0 {
					build.Store(crdt.Op{Main: true, Space: 1, Group: 1, Root: crdt.Checkpoint(c.needs, 1)}, handles[c.first:c.last], nil)
				}
				s, err := build.Slot(1, 1)
				if err != nil {
					b.Fatal(err)
				}
				x.Apply(&crdt.Delta{Stream: id, Epoch: 1, Anchor: 1, Slots: []crdt.Slot{s}}, 1)
				refs[r] = x.Ref(id)
			}
			var v View
			for b.Loop() {
				x.Match(keys, &v)
				for _, r := range refs {
					if d := v.Depth(r); d.GPU != c.want {
						b.Fatalf("%+v, want %d", d, c.want)
					}
				}
			}
		})
	}
}
