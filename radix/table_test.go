package radix

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTableEqualsMap drives a table with crowded hashes (ties, both ends)
// against a map. What it was told to expect may be far from what comes.
func TestTableEqualsMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := &memory{}
		defer mem.close()
		blocks := &blocks{mem: mem}
		tab := newTable(blocks)
		table := &tab
		table.expect(rapid.SampledFrom([]int{0, 20, 3_000, 100_000}).Draw(rt, "expected"))
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
			var c cursor
			table.seek(&c, h)
			for {
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
	var c cursor
	table.seek(&c, hash)
	for c.next() != 0 {
	}
	table.insertAt(&c, ref)
}

// TestExpectedEntriesLieWhereTheyCome fills tables with what they expect, or
// less: no part is rebuilt, hardly one splits, and no memory is taken before
// it is needed or, some at a time, prepared.
func TestExpectedEntriesLieWhereTheyCome(t *testing.T) {
	for _, n := range []int{30, 2_000, 7_000, 40_000, 300_000} {
		grown, expected := fill(t, n, 0), fill(t, n, n)
		if len(expected.infos) > len(grown.infos)+1+len(grown.infos)/20 {
			t.Errorf("%d entries: %d parts, %d without being expected", n, len(expected.infos), len(grown.infos))
		}
		if used, want := expected.blocks.used, grown.blocks.used; used*20 > want*21 {
			t.Errorf("%d entries: %d buckets, %d without being expected", n, used, want)
		}
		if few := fill(t, 1, n).blocks.used; few > 1<<maxLog {
			t.Errorf("one entry of %d expected takes %d buckets", n, few)
		}
	}
}

// fill puts n entries into a table that expects another number, if any.
func fill(t *testing.T, n, expected int) *table {
	t.Helper()
	mem := &memory{}
	t.Cleanup(mem.close)
	table := newTable(&blocks{mem: mem})
	table.expect(expected)
	table.expect(2 * expected) // only the first word counts
	parts := len(table.infos)
	if table.blocks.used != 0 {
		t.Fatalf("%d buckets for nothing", table.blocks.used)
	}
	if n == expected && n%4_000 == 0 {
		prepare(t, &table, parts)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		table.insert(spread(rng.Uint32())|1, uint32(i+1))
	}
	checkTable(t, &table)
	if expected > 0 {
		for log, free := range table.blocks.free {
			if len(free) > 0 {
				t.Errorf("%d entries of %d expected: a part of %d buckets was left", n, expected, 1<<log)
			}
		}
		if split := len(table.infos) - parts; split > 1+parts/20 {
			t.Errorf("%d entries of %d expected: %d of %d parts split", n, expected, split, parts)
		}
	}
	return &table
}

// prepare takes all buckets that a table will need, three parts at a time.
func prepare(t *testing.T, table *table, parts int) {
	t.Helper()
	for steps := 1; ; steps++ {
		before := table.blocks.used
		more := table.prepare(3)
		if got := table.blocks.used - before; got > 3<<maxLog || more && got == 0 {
			t.Fatalf("%d buckets in one step, more %v", got, more)
		}
		if !more {
			if steps != (parts+2)/3 {
				t.Errorf("%d parts in %d steps", parts, steps)
			}
			break
		}
	}
	for i := range table.dir {
		if table.dir[i].first == &vacant {
			t.Fatalf("part %d of %d was not prepared", i, len(table.dir))
		}
	}
	checkTable(t, table)
}

func TestBelowUndoesSpread(t *testing.T) {
	for u := uint64(0); u < 1<<32; u += 65_521 {
		want := float64(u) / (1 << 32)
		if got := below(float64(spread(uint32(u))) / (1 << 32)); got < want-1e-6 || got > want+1e-6 {
			t.Fatalf("%g of the hashes are below that of %g", got, want)
		}
	}
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
