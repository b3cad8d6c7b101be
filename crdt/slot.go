package crdt

// Slot is one whole engine batch, the unit of replication. Its body is a pure
// function of the engine's bytes (and the mesh's hash secret): no field
// depends on what any peer knew. Slots are immutable once built.
type Slot struct {
	Seq  uint64 // 1-based: wire sequence 0 is slot 1
	TS   int64  // the engine's own batch time, microseconds since 1970; 0 unknown
	Body []byte // canonical packed ops, see Builder and Ops
}

// OpKind says what an op does.
type OpKind uint8

// The op kinds.
const (
	OpStore OpKind = iota + 1
	OpRemove
	OpClear
)

// Op is one decoded operation of a slot. Handles and Hashes are views into the
// slot's body.
type Op struct {
	Kind OpKind
	Mode Mode // how the engine counts
	Tier Tier

	// Space tells apart entries with equal handles (SGLang leaves salt and LoRA
	// out of its hash); 0 for engines whose handles are unique. A removal with
	// AnySpace hits all entries of a handle.
	Space    uint64
	AnySpace bool

	// Store only. The run hangs below the handle Parent, or below the root key
	// Root if HasParent is false; a Root without PerPage is a Checkpoint. PerPage token hashes describe each handle;
	// 0 means "same block, one more tier".
	HasParent bool
	Parent    uint64
	Root      uint64
	PerPage   int
	// Small is the tokens of a page that is shorter than a grid block; 0: it is
	// not. Hashes then are the page's tokens, two a word, each word masked by the
	// mesh's secret and the handle (radix.Hasher.Mask): the fold makes grid blocks
	// of consecutive pages. PerPage is the words a page.
	Small  int
	Inside bool // Parent is the block before in the same run: see Slot.Part

	// Reuse, stores of a Counted engine only: the run may be a report of blocks
	// that were there already. It makes blocks present and counts no second copy.
	Reuse bool

	// Group is the engine's cache group; Main is false if the group does not
	// describe the whole prefix (sliding window, mamba): the fold ignores the op.
	// See Ahead for the exception.
	Group int32
	Main  bool

	Handles Words // n page handles
	Hashes  Words // n*PerPage token hashes
}

// Ahead reports whether the op is no store but tells what stands behind the pages
// of the store before it: one word a page (radix.Hasher.After). It changes no fact.
// Engines whose block hashes cover the next tokens too (vLLM 0.33 with EAGLE or
// MTP) reuse a page only before those. A store of another cache group has no
// words, so older peers, which do not know such an op, pass over it.
func (op *Op) Ahead() bool { return op.Kind == OpStore && !op.Main && op.PerPage == 1 && op.Small == 0 }

// Put is the value of a fact after a store op at seq.
//
// What is a copy, by vLLM's block pool (v1/core/block_pool.py at 0.32.0, and its
// events, which TestVLLMReportsAndCopies plays): a block computed again takes
// another physical block with the same hash, is stored again (cache_full_blocks
// asks nobody whether the hash is there) and removed once for each of them
// (_maybe_evict_cached_block), so copies are counted. That is every day's
// traffic: the last block of a page-aligned prompt asked for twice. A report of
// reused blocks (emit_cached_block_events, for requests that say
// kv_cache_report_mode full) is a store of the same shape and no copy; it always
// covers the prompt from its first block on and has no parent. So a GPU store
// without a parent makes its blocks present and counts no second copy. The other
// stores from block 0 of what is there (requests that skip the cache, two
// transfers of one prompt) are copies and are not counted as such: the first
// removal takes the block away though a copy is left, until it is stored again
// or an answer tells of it. The other error, copies that no removal ever takes
// away, would stay. Where an event tells its origin (NEW or REUSED), that counts.
func (op *Op) Put(old Meta, seq uint64) Meta {
	if op.Reuse && old.Copies(op.Tier) > 0 {
		return old&copiesMask | Meta(seq)<<metaSeqShift
	}
	return old.Store(op.Mode, op.Tier, seq)
}

// Checkpoint is the Root of a store of a cache group besides the main one. It
// says what its blocks are needed for: so many of them, each of so many grid
// blocks, up to the end of what a request reuses (1: the state of recurrent
// layers there; more: a window). It is never 0.
func Checkpoint(blocks, grid int) uint64 { return uint64(uint32(blocks)) | uint64(grid)<<32 }

// Words is a packed little-endian column of 64-bit words.
type Words []byte

// Len is the number of words.
func (w Words) Len() int { return len(w) / 8 }

// At returns word i.
func (w Words) At(i int) uint64 {
	b := w[8*i : 8*i+8 : 8*i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
