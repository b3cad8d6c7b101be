package radix

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTableEqualsMap drives a table with crowded hashes (ties, both ends)
// against a map.
func TestTableEqualsMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := &memory{}
		defer mem.close()
		blocks := &blocks{mem: mem}
		tab := newTable(blocks)
		table := &tab
		model := map[uint32][]uint32{}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		crowd := rapid.SampledFrom([]uint32{8, 1 << 10, 1<<32 - 1}).Draw(rt, "hashes")
		count, steps := 0, 30_000 // some splits
		if crowd < 1<<31 {
			steps = 900 // ties cost a walk each, and parts that cannot be split
		}
		draw := func() uint32 {
			h := rng.Uint32N(crowd)
			switch rng.IntN(3) {
			case 0:
				h = ^h
			case 1:
				h = spread(h * 0x9E3779B1)
			}
			return h | 1
		}
		var hashes []uint32
		for ref := range uint32(rapid.IntRange(1, steps).Draw(rt, "steps")) {
			if rng.IntN(3) > 0 || len(hashes) == 0 {
				h := draw()
				// References come in no order, as recycled ones do.
				ref = (ref + 1) * 0x9E3779B1 // odd: no two are equal
				insertEitherWay(rng, table, h, ref)
				model[h] = append(model[h], ref)
				hashes = append(hashes, h)
				count++
				continue
			}
			h := hashes[rng.IntN(len(hashes))]
			refs := model[h]
			if table.remove(h, 1<<31) {
				rt.Fatal("an unknown reference was removed")
			}
			if len(refs) > 0 {
				if !table.remove(h, refs[0]) {
					rt.Fatalf("reference %d of %x is lost", refs[0], h)
				}
				model[h] = refs[1:]
				count--
			}
		}
		checkTable(t, table)
		checkRoom(rt, table)
		if table.count != count {
			rt.Fatalf("count %d, want %d", table.count, count)
		}
		for h, want := range model {
			var got []uint32
			for c := table.seek(h); ; {
				ref := c.next()
				if ref == 0 {
					break
				}
				got = append(got, ref)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				rt.Fatalf("%x: %v, want %v", h, got, want)
			}
		}
		table.drop()
		if blocks.used != 0 {
			rt.Fatalf("%d buckets are left", blocks.used)
		}
	})
}

// checkRoom looks that no part was filled beyond its limit.
func checkRoom(t *rapid.T, table *table) {
	for _, info := range table.infos {
		if info.room > limit(info.log) {
			t.Fatalf("a part of %d buckets has room for %d entries", 1<<info.log, info.room)
		}
	}
}

// insertEitherWay inserts from the root or where a walk over the hash ended.
func insertEitherWay(rng *rand.Rand, table *table, hash, ref uint32) {
	if rng.IntN(2) == 0 {
		table.insert(hash, ref)
		return
	}
	c := table.seek(hash)
	for c.next() != 0 {
	}
	table.insertAt(&c, ref)
}

func TestSpreadKeepsOrder(t *testing.T) {
	last := uint32(0)
	for u := uint64(0); u < 1<<32; u += 65_521 {
		v := spread(uint32(u))
		if v < last {
			t.Fatalf("spread(%x) = %x after %x", u, v, last)
		}
		last = v
	}
	if spread(1<<32-1) < 1<<32-4 || spread(0) != 0 {
		t.Fatal("spread leaves a gap at an end")
	}
}

// TestTableMemoryGrowsSmoothly pins what uneven parts are for: at no size does
// an entry cost much more than at another.
func TestTableMemoryGrowsSmoothly(t *testing.T) {
	mem := &memory{}
	defer mem.close()
	blocks := &blocks{mem: mem}
	table := newTable(blocks)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 400_000; n++ {
		table.insert(spread(rng.Uint32())|1, uint32(n))
		if n >= 50_000 && n%10_000 == 0 {
			if per := float64(64*blocks.used) / float64(n); per > 16 {
				t.Fatalf("%d entries cost %.1f bytes each", n, per)
			}
		}
	}
}

// BenchmarkTable fills 64 tables in turns, as 64 holders do.
func BenchmarkTable(b *testing.B) {
	for range b.N {
		mem := &memory{}
		blocks := &blocks{mem: mem}
		tables := make([]table, 64)
		for i := range tables {
			tables[i] = newTable(blocks)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		const n = 64 * 100_000
		for i := range n {
			tables[i/256%64].insert(spread(rng.Uint32())|1, uint32(i+1))
		}
		b.ReportMetric(b.Elapsed().Seconds()*1e9/n, "ns/insert")
		b.ReportMetric(float64(blocks.used*64)/n, "B/entry")
		b.ReportMetric(float64(mem.bytes)/n, "mapped-B/entry")
		mem.close()
	}
}
