package replica

// KVKind says what a KV event tells.
type KVKind uint8

// The KV event kinds.
const (
	Stored  KVKind = iota + 1 // a run of full pages became findable
	Removed                   // one page was evicted
	Cleared                   // the whole prefix cache was dropped
)

// KVEvent is one change of the prefix cache, in the engine's order.
type KVEvent struct {
	Kind KVKind

	// Stored: Keys name the consecutive pages [First, First+len(Keys)) of
	// request ID; First == 0 means the run starts at the root, else Parent is
	// the key of page First-1. Keys is a view into the request's Keys.
	ID     uint64
	First  int
	Parent uint64
	Keys   []uint64

	Key uint64 // Removed
}

// Progress tells that a request produced a token in the step that ended.
type Progress struct {
	ID       uint64
	Produced int  // tokens so far
	Cached   int  // prompt tokens that were not computed when it was first admitted
	First    bool // this was its first token
	Done     bool // this was its last token; the request is forgotten
}

// Result is what one step did. Its slices are valid until the next call of
// any method.
type Result struct {
	Start, End float64 // seconds
	KV         []KVEvent
	Tokens     []Progress // in schedule order
}

// Stats is the load an engine would report.
type Stats struct {
	Running, Waiting int
	WaitingTokens    int // tokens that waiting requests still need computed, at most
	Used, Blocks     int // referenced pages, all pages; Blocks 0: unlimited
	Cached           int // distinct keys in the prefix cache

	Queries, Hits   uint64 // prompt tokens looked up, found cached (vllm:prefix_cache_*_total)
	Computed        uint64 // prefill tokens computed, recomputation included
	Generated       uint64 // tokens produced
	Finished        uint64
	Preempted       uint64
	Steps           uint64
	Busy            float64 // seconds spent in steps
	PrefillBusy     float64 // seconds spent in steps that held prefill work
	RecomputedToken uint64  // tokens computed again after a preemption
}

// KVUse is the referenced share of the pages, 0..1.
func (s Stats) KVUse() float64 {
	if s.Blocks == 0 {
		return 0
	}
	return float64(s.Used) / float64(s.Blocks)
}
