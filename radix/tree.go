package radix

// Holder names one set of facts in a Tree: one incarnation of one replica's
// stream. Holders are small dense numbers and are reused after FreeHolder.
type Holder uint32

// Fact is one page that a holder caches.
type Fact struct {
	Handle uint64 // the engine's hash of the page, unique inside the holder
	Key    Key    // key of the page's last grid block
	Meta   Meta
	Blocks int // grid blocks in the page (1, 2, 4, ...)
}

// Update computes a fact's new meta from the old one. f is the fact as it was
// before the call (a fact that moves still has its old key); f.Meta is 0 and
// f.Key is the new key if the fact is new. Returning a meta without copies
// removes the fact. It is called exactly once per known handle of a Remove and
// once per handle of a Store, in order; it must not call the tree.
type Update func(f Fact) Meta

// TreeConfig sizes a Tree. The zero value is a good default.
type TreeConfig struct {
	// Seed keys the hash tables; a random value keeps strangers from aiming at
	// one bucket. Answers do not depend on it.
	Seed uint64
}

// MaxPerPage is the largest number of grid blocks a page may have.
const MaxPerPage = 16

// Run is a piece of one chain as Runs hands it out. Its slices are valid only
// during the call.
type Run struct {
	Parent  Key // key before Keys[0]; a placement hint, 0 if unknown
	PerPage int
	Keys    []Key // PerPage per handle
	Handles []uint64
	Metas   []Meta
}

// Stats is the size of a Tree at one moment.
type Stats struct {
	Holders int
	Facts   int
	Keys    int
	Lines   int
	Sets    int
	Bytes   int64 // memory in use: lines, facts, tables, sets
}

// Prefix is one much-shared piece of the tree.
type Prefix struct {
	Key     Key // last block
	Parent  Key // the block before this piece; 0 if unknown
	Depth   int // blocks from the first known one up to Key
	Blocks  int // blocks of this piece
	Holders []Holder
}
