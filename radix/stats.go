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
	for _, c := range t.Columns() {
		st.Bytes += c.Bytes
	}
	return st
}

// Used is Stats.Bytes but for the directories, which are small, and with what
// was freed left out: it falls when facts go. O(1).
func (t *Tree) Used() int64 {
	n := int64(t.lines.live) * int64(unsafe.Sizeof([lineLen]Key{})+unsafe.Sizeof(hotLine{})+unsafe.Sizeof(coldLine{}))
	n += int64(t.mixed.inUse()) * int64(unsafe.Sizeof(mixedLine{}))
	n += int64(t.facts.inUse()) * int64(unsafe.Sizeof(factLine{}))
	n += int64(t.metas.inUse()) * int64(unsafe.Sizeof([lineLen]Meta{}))
	n += int64(len(t.spills)-1-len(t.freeSpills))*int64(unsafe.Sizeof(spilled{})) + int64(len(t.covers))*40
	return n + t.heads.bytes + t.sets.bytes() + t.blocks.used*int64(unsafe.Sizeof(bucket{}))
}

// Column is one kind of memory of a Tree.
type Column struct {
	Name  string
	Bytes int64 // in use
}

// Columns says where a Tree's memory goes. O(holders).
func (t *Tree) Columns() []Column {
	lines := int64(t.lines.edge)
	dirs := t.keys.dirBytes() + t.sets.intern.dirBytes()
	for _, hs := range t.holders {
		if hs != nil {
			dirs += int64(unsafe.Sizeof(holder{})) + hs.byHandle.dirBytes() + hs.byLine.dirBytes()
		}
	}
	return []Column{
		{"keys", lines * int64(unsafe.Sizeof([lineLen]Key{}))},
		{"lines", lines * int64(unsafe.Sizeof(hotLine{})+unsafe.Sizeof(coldLine{}))},
		{"line heads", t.heads.bytes},
		{"mixed lines", int64(t.mixed.n) * int64(unsafe.Sizeof(mixedLine{}))},
		{"holder sets", t.sets.bytes()},
		{"facts", int64(t.facts.n) * int64(unsafe.Sizeof(factLine{}))},
		{"values of split fact lines", int64(t.metas.n) * int64(unsafe.Sizeof([lineLen]Meta{}))},
		{"facts outside of lines", int64(len(t.spills))*int64(unsafe.Sizeof(spilled{})) + int64(len(t.covers))*40},
		{"tables of keys, handles, fact lines", t.blocks.used * int64(unsafe.Sizeof(bucket{}))},
		{"directories of the tables, holders", dirs},
	}
}

func (t *table) dirBytes() int64 {
	return int64(len(t.dir))*int64(unsafe.Sizeof(part{})) + int64(len(t.infos))*int64(unsafe.Sizeof(partInfo{}))
}

func (s *sets) bytes() int64 {
	total := int64(len(s.cache)) * int64(unsafe.Sizeof(transition{}))
	for c := range s.classes {
		total += int64(len(s.classes[c].recs)) * (int64(unsafe.Sizeof(setRec{})) + 32<<c)
	}
	return total
}
