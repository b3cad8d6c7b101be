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
