package fleet

// Facts is what is known of an engine: what the configuration says, and where
// it is silent what the engine itself told. Immutable once published.
type Facts struct {
	Engine     string // vllm, sglang or trtllm; empty: not known yet
	EngineFrom string // who said so: configured, assumed, or the endpoint that told
	BlockSize  int    // tokens per page; 0 unknown
	BlockFrom  string // the endpoint that told
	Capacity   int64  // KV tokens; 0 unknown
	Ranks      int    // data-parallel ranks behind the URL; 0 unknown

	Events     string // PUB endpoint, "poll" for TensorRT-LLM's queue, empty: none known
	EventsFrom string // configured, or the endpoint that told
	Replay     string // replay endpoint
	Topic      string // SUB prefix
	Tells      string // PUB endpoint that the engine tells of its own host, whatever is configured
	Elsewhere  string // PUB endpoint that the engine told and that is not on its host; not followed

	Loads     string // where SGLang publishes its load; empty: nowhere known
	LoadTopic string // SUB prefix there
}

// Where facts come from.
const (
	fromConfig  = "configured"
	fromNowhere = "assumed" // the engine answered every question and told nothing
	fromModels  = "/v1/models"
	fromInfo    = "/server_info"
	fromSources = "/kv_event_sources"
	fromVersion = "/version"
)

// Poll is what Spec.Events says of an engine whose events are polled.
const Poll = "poll"

// configured are the facts of a spec, before the engine was asked.
func (s *Spec) configured() Facts {
	f := Facts{Engine: s.Engine, Events: s.dialed(s.Events), Replay: s.dialed(s.Replay), Topic: s.Topic}
	if f.Engine == engineAuto {
		f.Engine = ""
	}
	if f.Engine != "" {
		f.EngineFrom = fromConfig
	}
	if f.Events != "" {
		f.EventsFrom = fromConfig
	}
	return f
}

// Facts returns what is known of the engine. One pointer load.
func (r *Replica) Facts() Facts { return *r.facts.Load() }

// Engine is the engine's kind, empty until it is known. One pointer load.
func (r *Replica) Engine() string { return r.facts.Load().Engine }

// Page is the tokens of the engine's page; 0 unknown. One pointer load.
func (r *Replica) Page() int { return r.facts.Load().BlockSize }

// note publishes new facts and reports whether how to follow the replica's
// events changed.
func (r *Replica) note(next Facts) bool {
	before := r.facts.Swap(&next)
	return before.Engine != next.Engine || before.Events != next.Events ||
		before.Replay != next.Replay || before.Topic != next.Topic || before.BlockSize != next.BlockSize || before.Ranks != next.Ranks
}
