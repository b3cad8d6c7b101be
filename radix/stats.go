package radix

import "unsafe"

// Stats is the size of a Tree at one moment.
type Stats struct {
	Holders int
	Facts   int
	Keys    int
	Lines   int
	Sets    int   // distinct holder sets
	Split   int   // lines whose blocks have different sets
	Spills  int   // facts outside of the lines
	Retired int   // records waiting for readers to leave
	Bytes   int64 // memory in use: lines, facts, tables, sets
}

// Stats measures the tree. O(holders).
func (t *Tree) Stats() Stats {
	st := Stats{
		Facts: t.count, Keys: t.keys.count, Lines: t.lines.live,
		Sets: t.sets.count, Split: t.mixed.inUse(),
		Spills:  len(t.spills) - 1 - len(t.freeSpills),
		Retired: len(t.retired) - t.reclaimed,
	}
	for _, hs := range t.holders {
		if hs != nil {
			st.Holders++
		}
	}
	lineBytes := unsafe.Sizeof(hotLine{}) + unsafe.Sizeof([lineLen]Key{}) + unsafe.Sizeof(coldLine{})
	st.Bytes = int64(t.lines.edge)*int64(lineBytes) +
		int64(t.facts.n)*int64(unsafe.Sizeof(factLine{})) +
		int64(t.metas.n)*int64(unsafe.Sizeof([lineLen]Meta{})) +
		int64(t.mixed.n)*int64(unsafe.Sizeof(mixedLine{})) +
		t.blocks.used*int64(unsafe.Sizeof(bucket{})) + t.heads.bytes + t.sets.bytes() +
		int64(len(t.spills))*int64(unsafe.Sizeof(spilled{})) + int64(len(t.covers))*40
	return st
}

func (s *sets) bytes() int64 {
	total := int64(len(s.cache)) * int64(unsafe.Sizeof(transition{}))
	for c := range s.classes {
		total += int64(len(s.classes[c].recs)) * (int64(unsafe.Sizeof(setRec{})) + 32<<c)
	}
	return total
}
