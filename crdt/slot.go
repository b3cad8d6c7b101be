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
	// Root if HasParent is false. PerPage token hashes describe each handle;
	// 0 means "same block, one more tier".
	HasParent bool
	Parent    uint64
	Root      uint64
	PerPage   int
	Inside    bool // Parent is the block before in the same run: see Slot.Part

	// Group is the engine's cache group; Main is false if the group does not
	// describe the whole prefix (sliding window, mamba): the fold ignores the op.
	Group int32
	Main  bool

	Handles Words // n page handles
	Hashes  Words // n*PerPage token hashes
}

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
