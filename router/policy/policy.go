package policy

import "math/rand/v2"

// Reason says why a replica was chosen; a closed list, used as a metric label.
type Reason string

// The reasons.
const (
	ReasonPrefix   Reason = "prefix"   // it holds the most useful prefix
	ReasonLoad     Reason = "load"     // nobody holds much: least expected wait
	ReasonSpill    Reason = "spill"    // the best holder is too busy
	ReasonSession  Reason = "session"  // session affinity
	ReasonStale    Reason = "stale"    // the view is too old: fallback or guard
	ReasonOnly     Reason = "only"     // a single candidate
	ReasonBaseline Reason = "baseline" // a policy that does not look
)

// Request is what a policy sees of one request.
type Request struct {
	Tokens  int    // prompt length; an estimate in text mode
	Key     uint64 // deepest block key (0: no key), for consistent hashing
	Prefix  uint64 // a block key near the head of the prompt, equal for prompts that share it; 0: use Key
	Session uint64 // hash of the session id; 0: none
}

// Candidate is one replica as this peer sees it now. Tokens are counted from
// the start of the prompt.
type Candidate struct {
	ID    uint64 // stable hash of the replica's name, for rendezvous hashing
	Index int    // the caller's index of the replica
	// Engine is equal where replicas can hand KV to each other, below 8.
	Engine uint8

	GPU       int // tokens cached on the GPU, confirmed
	CPU       int // tokens cached on GPU or CPU
	Disk      int // tokens cached on any tier of the replica
	Pool      int // tokens its shared cache layer holds
	Predicted int // tokens expected on the GPU (own and others' dispatches)
	Suspect   int // of GPU: tokens that only suspect facts vouch for
	Fetch     int // tokens that it can fetch from another replica; 0: it cannot, or nobody has any
	// FetchWait is how many seconds that replica is still busy handing tokens to
	// others, as far as this peer knows.
	FetchWait float64

	// Load, summed over peers (own requests included).
	Waiting    int     // requests without a first token
	Prefill    float64 // seconds of prefill they hold
	Tokens     int64   // uncached tokens they hold
	Streams    int     // streams decoding
	Blocks     int64   // grid blocks those streams hold
	FirstToken int64   // ms; last first token seen, or the dispatch that found it empty
	// Own dispatches younger than the view age.
	YoungCount   int
	YoungPrefill float64

	// From the scrape; -1 unknown.
	Running  int
	Queued   int
	KVUse    float64
	Capacity int64 // KV tokens; 0 unknown

	Held int64 // tokens that its events say it caches, on any tier; 0 unknown

	Rates  Rates
	Weight float64 // operator's weight, 1 normal; slow start lowers it
}

// Rates is how fast a replica prefills and decodes, learned online.
type Rates struct {
	A     float64 // seconds per chunk
	B     float64 // seconds per uncached token
	CQ    float64 // seconds per token^2 of context
	T0    float64 // idle decode step, seconds
	Chunk int     // tokens per prefill chunk
	Speed float64 // time per token relative to the fleet; 1 is normal
	Fetch float64 // time that fetching takes over what is configured, as learned; 0: 1
}

// View is what a policy knows of the fleet and of its own knowledge.
type View struct {
	NowMs int64
	// AgeMs is how long another peer's dispatch may stay unseen here, by the
	// worst live peer: flush and transfer delay while its frames come on time
	// (silence up to a heartbeat is no news, not old news), its silence beyond.
	// Taking 200 ms for 1 ms costs 1 % of TTFT on traces, 35 % on a hot prefix.
	AgeMs  float64
	Peers  int     // live peers, this one included
	Lambda float64 // requests a second of the whole fleet
	MeanS  float64 // mean prefill seconds of recent requests
	// IndexAgeMs is how old the index view may be.
	IndexAgeMs float64
	// Share is how much of what this peer is asked for begins like this request
	// (Demand.Ask), 0 to 1; 0: little or unknown.
	Share float64
	// Rand must be set. It is not safe for concurrent use: one per call site.
	Rand *rand.Rand
}

// Decision is the answer. Pos is the position in the candidates, -1 if there
// is none.
type Decision struct {
	Pos     int
	Reason  Reason
	Matched int // tokens of the prompt believed cached at the winner
	Fetched int // more tokens that it fetches from another replica instead of computing them
	// FetchTo is how many tokens of the prompt the replica must hold that the
	// winner is told to fetch from; 0: it is told of none. It may be told where
	// Fetched is 0: what is only expected to be there may still be on its way.
	FetchTo   int
	Prefill   float64 // expected own prefill seconds at the winner
	Moving    float64 // expected seconds from dispatch until what it fetches is there; 0: it fetches nothing
	Predicted float64 // expected seconds to the first token; 0 if the policy has no idea
}

// Policy picks one of the candidates. Implementations may keep counters and
// must be safe for concurrent use. scores, if not nil, has room for one score
// per candidate (lower is better) and is filled for explanations;
// math.MaxFloat64 marks those that were not considered.
type Policy interface {
	Name() string
	Decide(req *Request, view *View, cands []Candidate, scores []float64) Decision
}
