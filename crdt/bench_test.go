package crdt_test

import (
	"testing"

	"github.com/banyan-llm/banyan/crdt"
)

// nullBlocks reads every op and stores nothing: what is left is the cost of
// this package.
type nullBlocks struct{ sum crdt.Sum }

func (b *nullBlocks) Fold(s *crdt.Slot, from crdt.Place, _ bool, max int) (crdt.Place, int) {
	next, cost, _ := s.Part(new(crdt.Op), from, max, func(op *crdt.Op) {
		for i := range op.Handles.Len() {
			b.sum.Facts ^= op.Handles.At(i)
		}
		b.sum.Count += uint64(op.Handles.Len())
	})
	return next, cost
}
func (b *nullBlocks) Rewind(int) int                      { return 0 }
func (b *nullBlocks) Settle()                             {}
func (b *nullBlocks) Sum() crdt.Sum                       { return b.sum }
func (b *nullBlocks) Scan(*crdt.Rows, uint64, int) uint64 { return 0 }
func (b *nullBlocks) Expect(int) bool                     { return false }
func (b *nullBlocks) Load(*crdt.Rows)                     {}
func (b *nullBlocks) Show()                               {}
func (b *nullBlocks) Drop()                               {}

// benchSlots makes n slots of one run of 16 blocks each.
func benchSlots(b *testing.B, n int) []crdt.Slot {
	col := make([]uint64, 16)
	slots := make([]crdt.Slot, n)
	var build crdt.Builder
	for i := range slots {
		for j := range col {
			col[j] = uint64(i*16+j) * 0x9e3779b97f4a7c15
		}
		build.Reset()
		build.Store(crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: col[0] - 1}, col, col)
		s, err := build.Slot(uint64(i+1), int64(i))
		if err != nil {
			b.Fatal(err)
		}
		slots[i] = s
	}
	return slots
}

func perBlock(b *testing.B, blocks int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(blocks), "ns/block")
}

// BenchmarkApply is the cost of a stream besides its store: inorder, one slot
// a delta; batch, 64 a delta; behindHole, with the first slot missing.
func BenchmarkApply(b *testing.B) {
	const n = 1024
	slots := benchSlots(b, n)
	for _, c := range []struct {
		name  string
		batch int
		skip  int
	}{{"inorder", 1, 0}, {"batch", 64, 0}, {"behindHole", 1, 1}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			ring := crdt.NewRing(1 << 20)
			for b.Loop() {
				s := crdt.NewStream(crdt.StreamConfig{ID: "r", Ring: ring, Open: func(uint64) crdt.Blocks { return &nullBlocks{} }})
				for i := c.skip; i < n; i += c.batch {
					s.Apply(&crdt.Delta{Epoch: 1, Anchor: 1, Slots: slots[i:min(n, i+c.batch)]}, 0)
				}
				s.Close()
			}
			perBlock(b, 16*n)
		})
	}
}

func BenchmarkSlots(b *testing.B) {
	slots := benchSlots(b, 256)
	encoded := crdt.AppendSlots(nil, slots)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, len(encoded))
		for b.Loop() {
			buf = crdt.AppendSlots(buf[:0], slots)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/slot")
		perBlock(b, 16*256)
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := crdt.DecodeSlots(encoded, 0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/slot")
		perBlock(b, 16*256)
	})
}

func BenchmarkBuild(b *testing.B) {
	col := make([]uint64, 256)
	for i := range col {
		col[i] = uint64(i) + 1
	}
	b.Run("run256", func(b *testing.B) {
		b.ReportAllocs()
		var build crdt.Builder
		for b.Loop() {
			build.Reset()
			build.Store(crdt.Op{Main: true, PerPage: 1}, col, col)
		}
		perBlock(b, 256)
	})
	b.Run("pageByPage", func(b *testing.B) {
		b.ReportAllocs()
		var build crdt.Builder
		for b.Loop() {
			build.Reset()
			for i := range col {
				op := crdt.Op{Main: true, PerPage: 1, HasParent: true, Parent: uint64(i)}
				build.Store(op, col[i:i+1], col[i:i+1])
			}
		}
		perBlock(b, 256)
	})
}

func BenchmarkFactHash(b *testing.B) {
	h := uint64(1)
	for b.Loop() {
		h = crdt.FactHash(h, 0, crdt.Meta(h))
	}
	if h == 0 {
		b.Fatal("unlikely")
	}
}

// BenchmarkPredictions joins prompts of 256 blocks: fresh, all new keys;
// shared, 224 keys of a prefix touched again and 32 new ones.
func BenchmarkPredictions(b *testing.B) {
	for _, c := range []struct {
		name   string
		shared int
	}{{"fresh", 0}, {"shared", 224}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			p := crdt.NewPredictions(crdt.PredictionsConfig{})
			now, next := int64(1_000_000), uint64(1000)
			list := []crdt.Prediction{{TTL: 60_000, Keys: make([]uint64, 256)}}
			for b.Loop() {
				now++
				for i := range list[0].Keys {
					if i < c.shared {
						list[0].Keys[i] = uint64(i) + 1
					} else {
						next++
						list[0].Keys[i] = next
					}
				}
				list[0].Time = now
				p.Join(list, now)
				p.Expire(now)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/key")
		})
	}
}

func BenchmarkLoadsJoin(b *testing.B) {
	b.ReportAllocs()
	l := crdt.NewLoads(crdt.PeerID{1})
	entry := []crdt.LoadEntry{{Replica: "http://10.0.0.1:8000#0", Load: crdt.Load{Waiting: 3, Prefill: 0.2}}}
	for b.Loop() {
		entry[0].Load.Version++
		l.Join(crdt.PeerID{2}, entry, nil)
	}
}
