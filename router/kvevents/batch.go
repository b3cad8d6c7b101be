package kvevents

import "errors"

// EventType is what an event says.
type EventType uint8

// The event types.
const (
	Stored EventType = iota + 1
	Removed
	Cleared
)

// Event is one decoded KV event. Slices are valid until the Decoder's next
// call.
type Event struct {
	Type   EventType
	Hashes []uint64 // handles

	HasParent bool
	Parent    uint64
	Tokens    []uint32
	BlockSize int

	Lora     string // adapter name; "lora_id=N" where the engine gave only a number
	Salt     string // cache salt, SGLang's own field or vLLM's in the first block's extra keys
	Medium   string
	Locality string
	Group    int32
	Kind     string // what the cache group holds; empty: not told

	// Extra holds, per block, the canonical bytes of whatever else tells it
	// apart (images, prompt embeddings); nil if no block has any.
	Extra [][]byte

	// Origin is NEW or REUSED where the engine tells which (vLLM #51699).
	Origin string

	// Ahead is, per block, the first token behind it that its hash covers too
	// (vLLM 0.33 with EAGLE or MTP); nil if hashes cover none. Where they cover
	// more than one, the others are not kept.
	Ahead []uint32

	Window    int64
	Ownership string
	Session   string
}

// mayReport reports whether a vLLM store may tell of blocks that were there
// already: crdt.Op.Put has the evidence.
func (e *Event) mayReport() bool {
	switch e.Origin {
	case "NEW":
		return false
	case "REUSED":
		return true
	}
	return !e.HasParent && (e.Medium == "" || e.Medium == "GPU")
}

// Layout is how a stream's events are written.
type Layout string

// The layouts seen in the wild.
const (
	LayoutArray    Layout = "array"
	LayoutMap      Layout = "map"
	LayoutMapBatch Layout = "map batch"
	LayoutJSON     Layout = "json"
)

// Batch is one decoded engine batch. It is valid until the Decoder's next
// call.
type Batch struct {
	TS     int64 // microseconds since 1970 on the engine's clock; 0 unknown
	Rank   int   // data-parallel rank; -1 not told
	Layout Layout
	Events []Event

	Dropped    int   // events that made no sense and were left out
	FirstFault error // why the first of them was; its index in FirstIndex
	FirstIndex int
	Unknown    int // unknown fields that were passed over
}

// Faults of one event.
var (
	errTag        = errors.New("unknown or missing event type")
	errMissing    = errors.New("a required field is missing")
	errHash       = errors.New("block hash is not an integer or 1 to 64 bytes")
	errToken      = errors.New("token id out of range")
	errBlockSize  = errors.New("block size out of range")
	errUnaligned  = errors.New("token count does not match block hashes and block size")
	errDuplicate  = errors.New("a block hash occurs twice")
	errOwnParent  = errors.New("a block is its own parent")
	errExtraCount = errors.New("extra keys do not match the blocks")
	errAhead      = errors.New("lookahead tokens do not match the blocks")
	errTooBig     = errors.New("too many blocks in one event")
)
