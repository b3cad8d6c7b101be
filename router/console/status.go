package console

// Status is the document of GET /v1/status and `banyan status --json`.
type Status struct {
	Name     string `json:"name"`
	PeerID   string `json:"peer_id"`
	Version  string `json:"version"`
	Label    string `json:"label"`
	Policy   string `json:"policy"`
	Grid     int    `json:"grid"`
	TimeMs   int64  `json:"time_ms"`
	UptimeS  int64  `json:"uptime_s"`
	Ready    bool   `json:"ready"`
	Draining bool   `json:"draining"`
	Reason   string `json:"reason"` // why it is not ready, or how it became so
	Behind   string `json:"behind"` // why what it knows of the mesh is late; empty if it is not
	// LateMs is how long this process waits for the CPU when it has something to
	// do: the mean of a quarter of a minute.
	LateMs  float64 `json:"late_ms"`
	OK      bool    `json:"ok"`    // no problem is listed
	Level   string  `json:"level"` // ok, warn (degraded) or bad (it does not serve as it should)
	Verdict string  `json:"verdict"`

	Config   Config    `json:"config"`
	Peers    []Peer    `json:"peers"`
	Replicas []Replica `json:"replicas"`
	Mesh     Mesh      `json:"mesh"`
	Tree     Tree      `json:"tree"`
	Requests Requests  `json:"requests"`
	Prefixes []Prefix  `json:"prefixes"`
	Keys     []Keying  `json:"keys"`
	Disagg   *Disagg   `json:"disaggregation"` // null while off
	Queue    *Queue    `json:"queue"`
	Problems []Problem `json:"problems"`
	History  []Point   `json:"history,omitempty"` // of the page: the last 15 minutes, oldest first
	Notes    []Problem `json:"notes"`             // what works and could work better: no trouble
}

// Config is what the peer goes by.
type Config struct {
	Hash     string   `json:"hash"`      // equal on peers that route alike; 8 hex digits
	LoadedMs int64    `json:"loaded_ms"` // when it, or a file it names, was last taken up
	Fault    string   `json:"fault"`     // why a newer one was not; empty if there is none
	Restart  []string `json:"restart"`   // settings that wait for a restart
}

// Peer is one router process as this peer sees it.
type Peer struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
	HTTP    string `json:"http"`
	Self    bool   `json:"self"`
	State   string `json:"state"`             // alive, failed, left
	Refused string `json:"refused,omitempty"` // why peers do not talk to each other although both live
	// Differs names the parts of the configuration in which the peer asked and
	// this one have differed for a minute.
	Differs   []string `json:"differs,omitempty"`
	Steady    bool     `json:"steady,omitempty"` // alive for a minute or more
	Flaps     bool     `json:"flaps,omitempty"`  // called failed and heard of again, twice in ten minutes
	Ready     bool     `json:"ready"`
	Draining  bool     `json:"draining"`
	Version   string   `json:"version"`
	Rate      *float64 `json:"requests_per_s"`
	ViewAgeMs *float64 `json:"view_age_ms"`
	// ViewAges is how old that peer's view of every other peer is, ms by peer
	// id, as it says itself; empty if it did not say.
	ViewAges map[string]int64 `json:"view_ages_ms"`
	Facts    *uint64          `json:"facts"`
	Memory   *uint64          `json:"memory_bytes"`
}

// Replica is one inference endpoint.
type Replica struct {
	Name      string   `json:"name"`
	URL       string   `json:"url"`
	Rank      int      `json:"rank"`
	Engine    string   `json:"engine"`
	Role      string   `json:"role"`
	Kind      string   `json:"kind"`  // replica; pool: a cache store, or render: a server that tells tokens; they get no requests
	State     string   `json:"state"` // up, down, draining, ejected: its answers fail, others go first, or unfit: it answers, but not as a server that could do its work
	Reason    string   `json:"reason"`
	Cure      string   `json:"cure,omitempty"` // of unfit
	SinceMs   int64    `json:"since_ms"`       // age of the state
	Models    []string `json:"models"`
	Tokenizer string   `json:"tokenizer"` // how prompts become keys: engine or text; see keys

	Source     string   `json:"source"`      // who listed it: static, dns, kubernetes
	EngineFrom string   `json:"engine_from"` // who named the engine: configured, assumed, or the endpoint that told
	BlockSize  *int     `json:"block_size"`  // tokens per page, as the engine says
	BlockFrom  string   `json:"block_size_from"`
	SlowStart  *float64 `json:"slow_start"`  // share of its weight while it comes up; null: all of it
	LoadAgeMs  *int64   `json:"load_age_ms"` // age of what its owners last read of its load
	LoadError  string   `json:"load_error"`  // why this peer could not read it

	Inflight int      `json:"inflight"` // all peers
	Waiting  int      `json:"waiting"`  // of those, without a first token
	Uncached int64    `json:"uncached_tokens"`
	KVUse    *float64 `json:"kv_use"`
	Running  *int     `json:"running"` // as the engine says
	Queued   *int     `json:"queued"`
	Cached   *float64 `json:"cached_ratio"`      // cached over prompt tokens of answers through this peer
	Tries    int      `json:"tries"`             // through this peer in the last minute
	Failed   int      `json:"failed"`            // of those
	TTFTMs   *float64 `json:"ttft_ms"`           // mean of those, from the dispatch; null: nothing was streamed
	Bad      int      `json:"bad_answers"`       // of the last minute, where other replicas answered
	Answered int      `json:"answered"`          // that bad_answers are a part of
	WasOut   string   `json:"was_out,omitempty"` // why it was left out until a moment ago; it gets a part of its requests
	// HidesCached: answers through this peer do not tell cached tokens.
	HidesCached bool `json:"hides_cached,omitempty"`

	Stream Stream `json:"stream"`
}

// Answers reports whether the replica can serve requests.
func (r *Replica) Answers() bool { return r.State != "down" && r.State != "unfit" }

// Stream is a replica's event stream as this peer knows it.
type Stream struct {
	State       string   `json:"state"` // ok, connecting, quarantined, unusable, none
	Detail      string   `json:"detail"`
	Owners      []string `json:"owners"`
	Epoch       uint64   `json:"epoch"`
	Anchor      uint64   `json:"anchor"`
	Floor       uint64   `json:"floor"`
	Holes       int      `json:"holes"`
	Lost        int      `json:"lost_spans"`
	Facts       uint64   `json:"facts"`
	Linked      uint64   `json:"linked"`
	Digest      string   `json:"digest"` // context and facts in 16 hex digits; equal on converged peers
	LastEventMs *int64   `json:"last_event_age_ms"`
	// ConnectingMs is how long the peer asked has been trying to connect to the
	// engine's publisher in vain; absent while it is connected or another peer's
	// work.
	ConnectingMs *int64 `json:"connecting_ms,omitempty"`

	Events     string `json:"events,omitempty"`      // where they are read
	EventsFrom string `json:"events_from,omitempty"` // configured, or the endpoint that told
	Replay     string `json:"replay,omitempty"`
}

// Mesh is how well the peers agree.
type Mesh struct {
	Peers         int               `json:"peers"`
	Divergent     int               `json:"divergent_streams"`
	Quarantined   int               `json:"quarantined_streams"`
	PropagationMs Quantiles         `json:"propagation_ms"`
	BytesIn       map[string]uint64 `json:"bytes_in"`
	BytesOut      map[string]uint64 `json:"bytes_out"`
	Snapshots     map[string]uint64 `json:"snapshots"`
	// UDPLost: other peers answer this one over TCP and not over UDP.
	UDPLost bool `json:"udp_lost,omitempty"`
	// Unjoined says of each seed why it could not be joined, while this peer has
	// met no other.
	Unjoined []string `json:"unjoined,omitempty"`
}

// Quantiles are null until something was observed.
type Quantiles struct {
	P50   *float64 `json:"p50"`
	P99   *float64 `json:"p99"`
	Count uint64   `json:"count"`
}

// Tree is the size of the index.
type Tree struct {
	Facts     uint64 `json:"facts"`
	Keys      uint64 `json:"keys"`
	Bytes     int64  `json:"bytes"`
	Predicted uint64 `json:"predicted_facts"`
	Suspect   uint64 `json:"suspect_facts"`
}

// Requests counts what came through this peer.
type Requests struct {
	Total         uint64  `json:"total"`
	Failed        uint64  `json:"failed"`
	PromptTokens  uint64  `json:"prompt_tokens"`
	MatchedTokens uint64  `json:"matched_tokens"`
	CachedTokens  uint64  `json:"cached_tokens"`
	Rate          float64 `json:"per_s"`

	TTFTMs  Quantiles `json:"ttft_ms"`  // to the first streamed byte, since the start
	AddedMs Quantiles `json:"added_ms"` // from a request's arrival to its dispatch

	Recent   *Recent  `json:"recent"`   // the last minute; null just after the start
	Failures Failures `json:"failures"` // of the last minute
	// FewFiles says that this process may open too few files for
	// limits.connections; "": it may open enough.
	FewFiles string `json:"few_files,omitempty"`
	// LogFault is why the access log's last lines could not be written; "": they
	// were. LogLost counts those that were not, since the start.
	LogFault string `json:"log_fault,omitempty"`
	LogLost  uint64 `json:"log_lost,omitempty"`
}

// Failures is how the last minute's requests through this peer ended, but those
// whose client left.
type Failures struct {
	Total   uint64    `json:"total"`
	Failed  uint64    `json:"failed"`  // no answer, a broken one, or 5xx
	Shed    uint64    `json:"shed"`    // 429
	Refused uint64    `json:"refused"` // other 4xx of replicas
	By      []Failure `json:"by"`      // commonest first
}

// Failure is one way in which requests ended without a good answer.
type Failure struct {
	Model   string `json:"model"`
	Replica string `json:"replica"` // "": none was asked
	Cause   string `json:"cause"`
	Status  int    `json:"status"` // the client's
	Count   uint64 `json:"count"`
}

// Overload reports whether the clients were told to come back later.
func (f *Failure) Overload() bool { return f.Status == 429 }

// ClientError reports whether the replica called the requests wrong.
func (f *Failure) ClientError() bool { return f.Status >= 400 && f.Status < 500 && f.Status != 429 }

// Recent is what came through this peer lately.
type Recent struct {
	Seconds       float64   `json:"seconds"`
	Total         uint64    `json:"total"`
	Failed        uint64    `json:"failed"`
	PromptTokens  uint64    `json:"prompt_tokens"`
	MatchedTokens uint64    `json:"matched_tokens"`
	CachedTokens  uint64    `json:"cached_tokens"`
	TTFTMs        Quantiles `json:"ttft_ms"`
	AddedMs       Quantiles `json:"added_ms"`
	// TurnedAway are connections that found no place (limits.connections).
	TurnedAway uint64 `json:"turned_away"`
}

// Point is the page's four numbers at one time; null: nothing was seen.
type Point struct {
	TimeMs int64    `json:"time_ms"`
	Rate   *float64 `json:"per_s"` // all peers
	Cached *float64 `json:"cached_ratio"`
	TTFT   *float64 `json:"ttft_ms"`
	Added  *float64 `json:"added_ms"`
}

// Queue is who waits at this peer for room at the replicas.
type Queue struct {
	InFlight     int               `json:"in_flight"`   // at this peer
	Concurrency  int               `json:"concurrency"` // most of them
	Waiting      int               `json:"waiting"`
	Most         int               `json:"limit"`   // that wait for one model
	Classes      []int             `json:"classes"` // waiting, by priority class, best first
	Tenants      int               `json:"tenants"` // that wait
	OldestMs     int64             `json:"oldest_ms"`
	ReplicaLimit int               `json:"replica_limit"` // what makes a replica full; 0: not looked at
	EngineQueue  int               `json:"engine_queue"`
	KVLoad       float64           `json:"kv_load"`
	WorkingSet   *WorkingSet       `json:"working_set,omitempty"`
	Outcomes     map[string]uint64 `json:"outcomes"` // of requests that could not be dispatched at once
	WaitMs       Quantiles         `json:"wait_ms"`
}

// WorkingSet is what prompts used lately of all caches.
type WorkingSet struct {
	UsedTokens  int64   `json:"used_tokens"`  // within Seconds
	CacheTokens int64   `json:"cache_tokens"` // KV caches of the replicas that tell
	Seconds     int     `json:"seconds"`
	Share       float64 `json:"share"`          // of the caches, beyond which new conversations wait; 0: none waits
	Again       float64 `json:"used_again"`     // share of the uses that found their block in use, 0-1
	Unknown     int     `json:"unknown_caches"` // replicas whose engine does not tell its size
}

// Refused is the number of requests that were not let in.
func (q *Queue) Refused() (n uint64) {
	for how, k := range q.Outcomes {
		if how != "admitted" {
			n += k
		}
	}
	return n
}

// Disagg is prefill and decode on different replicas, as seen by this peer.
type Disagg struct {
	Mode    string  `json:"mode"`
	Prefill int     `json:"prefill_replicas"` // up
	Decode  int     `json:"decode_replicas"`
	Pairs   uint64  `json:"pairs"`  // requests that two replicas shared
	Whole   uint64  `json:"whole"`  // requests that one replica served
	Failed  uint64  `json:"failed"` // prefill legs that failed or took too long
	Input   float64 `json:"input"`  // mean prompt tokens of answers
	Cached  float64 `json:"cached"` // of those, found cached
	Output  float64 `json:"output"` // mean generated tokens
	// Advised is how many prefill replicas go with one decode replica at this
	// traffic; null until measured.
	Advised *float64 `json:"advised_prefill_per_decode"`
}

// Keying is how text prompts of one model and API were last turned into keys.
type Keying struct {
	Model  string `json:"model"`
	API    string `json:"api"`    // completions, chat, messages or responses
	Scheme string `json:"scheme"` // engine: exact, as the engine's events; text: by the router's own requests only
	Rung   string `json:"rung"`   // render or tokenize: the endpoint that told; text
	Reason string `json:"reason"`
	Exact  bool   `json:"exact"`
	Off    bool   `json:"off"`  // events are followed for nothing
	Why    string `json:"why"`  // what the endpoints answered
	Cure   string `json:"cure"` // of what is off
}

// Prefix is one much-shared piece of the tree; never prompt text.
type Prefix struct {
	Key     string   `json:"key"`
	Parent  string   `json:"parent"` // of its first block
	Under   string   `json:"under"`  // key of the nearest listed piece that it continues; "" if none is
	Tokens  int      `json:"tokens"`
	Blocks  int      `json:"blocks"`
	Holders []string `json:"holders"`
	Model   string   `json:"model"`  // of the first prompt that found it cached, of those remembered; "": none did
	Tenant  string   `json:"tenant"` // of that prompt; "": it had none
	// HitShare is the part of the last 512 prompts of this peer that found it
	// cached where they went, be it only its first block; null before the first
	// prompt.
	HitShare *float64 `json:"hit_share"`
}

// Problem is something an operator should know, with what to do.
type Problem struct {
	Text string `json:"text"`
	Help string `json:"help"`
}
