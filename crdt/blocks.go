package crdt

// Blocks stores the facts of one incarnation of one stream. A Stream drives
// it; router/index implements it on the radix tree, tests with a map. Calls
// are serialised by the caller of the Stream.
type Blocks interface {
	// Fold applies a slot's ops in order, from the place where the call before
	// stopped (0: the beginning) until about max blocks are done; it gets on
	// whatever max is. next is where it stopped, 0 at the end; cost is what was
	// done, in blocks. Until a slot is done nothing but its rest is folded. With
	// above, what a Fold replaces is kept until Rewind, so that the base at the
	// floor can be restored. See Slot.Part.
	Fold(s *Slot, from Place, above bool, max int) (next Place, cost int)
	// Rewind undoes the Folds made with above since the last Rewind, about max
	// blocks of them. Less done than max means that all are undone; until then
	// Rewind alone is called.
	Rewind(max int) (done int)
	// Settle makes everything folded above part of the base: nothing to undo.
	Settle()
	// Sum adds up the visible facts (base and overlay).
	Sum() Sum
	// Scan appends at most max facts of the base to dst, starting at cursor
	// (0 = begin); next is 0 when all are done. No Fold happens between the
	// steps of one scan.
	Scan(dst *Rows, cursor uint64, max int) (next uint64)
	// Expect makes room in an empty store for so many linked facts at most, some
	// of it; more says that it wants to be called again before the first Load.
	Expect(linked int) (more bool)
	// Load adds facts of a snapshot to a store that is still empty or being
	// loaded; rows are the caller's again when it returns.
	Load(rows *Rows)
	// Show makes this store the one readers see for its stream; the store that
	// was shown before becomes invisible.
	Show()
	// Drop forgets all facts. The store is not used again.
	Drop()
}

// Rows is a column-wise batch of facts in runs, as snapshots carry them.
type Rows struct {
	Runs   []RunHead
	Handle []uint64 // one per page
	Meta   []Meta   // one per page
	Value  []uint64 // PerPage per page: block keys if the run is linked, token hashes if not
}

// RunHead describes Pages consecutive pages of one chain.
type RunHead struct {
	Pages   int
	PerPage int // grid blocks a page; 0: bare facts, whose tokens nobody told
	// Small is as in Op: Value holds PerPage masked words of tokens, Parent is a
	// root key if the run is Linked, else the handle it hangs below.
	Small int
	Space uint64
	// Linked: Value holds keys and Parent is the key before the run (a placement
	// hint; 0 if unknown). Otherwise Value holds token hashes and Parent is the
	// handle the run hangs below.
	Linked bool
	Parent uint64
}
