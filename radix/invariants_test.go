package radix

import "testing"

// checkInvariants walks the whole tree.
func checkInvariants(t *testing.T, w *twins) {
	t.Helper()
	tr := w.tree
	refs := map[uint32]uint32{}
	keys, live := 0, 0
	levels := map[Holder]map[Key]int{}
	for _, h := range w.holders {
		levels[h] = w.model.levels(h)
	}
	for id := uint32(1); id < tr.lines.edge; id++ {
		word := tr.lines.hot.at(id).w.Load()
		n := wCount(word)
		if int(tr.lines.cold.at(id).n) != n {
			t.Fatalf("I2: line %d has %d keys, %d published", id, tr.lines.cold.at(id).n, n)
		}
		if n == 0 {
			continue
		}
		live++
		keys += n
		checkLine(t, w, id, word, refs, levels)
	}
	if live != tr.lines.live || keys != tr.keys.count {
		t.Fatalf("I1: %d lines of %d, %d keys of %d", live, tr.lines.live, keys, tr.keys.count)
	}
	for c := range tr.sets.classes {
		for i, r := range tr.sets.classes[c].recs {
			id := uint32(c)<<classShift | uint32(i)
			if id != 0 && r.refs != refs[id] {
				t.Fatalf("I5: set %x has %d references, counted %d", id, r.refs, refs[id])
			}
		}
	}
	checkTable(t, &tr.keys)
	for _, hs := range tr.holders {
		checkTable(t, &hs.byHandle)
		checkTable(t, &hs.byLine)
		if hs.byHandle.count != hs.count {
			t.Fatalf("I4: %d references for %d facts", hs.byHandle.count, hs.count)
		}
	}
}

func checkLine(t *testing.T, w *twins, id uint32, word uint64, refs map[uint32]uint32, levels map[Holder]map[Key]int) {
	t.Helper()
	tr := w.tree
	n := wCount(word)
	line := tr.lines.keys.at(id)
	if uint64(line[n-1]) != tr.lines.hot.at(id).last.Load() {
		t.Fatalf("I2: last of line %d is stale", id)
	}
	if word&wMixed == 0 {
		if uint32(word) == 0 {
			t.Fatalf("I3: line %d has no holder and lives", id)
		}
		refs[uint32(word)]++
	}
	for off, k := range line[:n] {
		if loc := tr.lookup(k, tr.hash(uint64(k))); loc != id<<lineShift|uint32(off) {
			t.Fatalf("I1: key at %d.%d is found at %x", id, off, loc)
		}
		if off > 0 && w.world.parent[k] != line[off-1] {
			t.Fatalf("I1: key at %d.%d does not follow the one before", id, off)
		}
		set := uint32(word)
		if word&wMixed != 0 {
			set = tr.mixed.at(set)[off].Load()
			refs[set]++
		}
		for _, h := range w.holders {
			if got, want := int(tr.sets.level(set, h)), levels[h][k]; got != want {
				t.Fatalf("I4: holder %d has level %d at %d.%d, want %d", h, got, id, off, want)
			}
		}
	}
}

func checkTable(t *testing.T, table *table) {
	t.Helper()
	total := 0
	for i := range table.dir {
		p := &table.dir[i]
		if i > 0 && p.id == table.dir[i-1].id {
			if *p != table.dir[i-1] {
				t.Fatalf("I8: the directory names part %d in two ways", p.id)
			}
			continue
		}
		info := table.infos[p.id]
		count := uint32(0)
		for at := range p.mask + 1 {
			b := p.bucket(at)
			for left := b.used(); left != 0; left &= left - 1 {
				hash := b.hash(left.first())
				if int(uint64(hash)>>(32-info.depth)) != i>>(32-table.shift-info.depth) || hash&1 == 0 {
					t.Fatalf("I8: entry %x is in part %d of depth %d", hash, i, info.depth)
				}
				for from := p.home(hash); from != at; from = (from + 1) & p.mask {
					if p.bucket(from).room() != 0 {
						t.Fatalf("I8: bucket %d holds %x, and %d has room", at, hash, from)
					}
				}
				count++
			}
		}
		if p.first == &vacant && (count != 0 || info.room != 0) || p.first != &vacant && count+info.room != limit(info.log) {
			t.Fatalf("I8: part has %d entries and room for %d of %d", count, info.room, limit(info.log))
		}
		total += int(count)
	}
	if total != table.count {
		t.Fatalf("I8: table counts %d, has %d", table.count, total)
	}
}
