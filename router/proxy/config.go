package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/banyan-llm/banyan/router/openai"
)

// What Pick may return beside a Target; each has its own answer.
var (
	ErrNoReplica    = errors.New("no replica can take the request") // 503 and Retry-After
	ErrUnknownModel = errors.New("the model does not exist")        // 404
	ErrDraining     = errors.New("this peer is shutting down")      // 503 and Retry-After
	// ErrSaturated makes the call wait until Config.Room says that there is
	// room, or for 429: every replica that could take it is full.
	ErrSaturated = errors.New("every replica that serves the model is full")
	// ErrCrowded is ErrSaturated for a call that begins a conversation, while those
	// that go on are let in: it waits until Config.RoomToBegin says so.
	ErrCrowded = errors.New("the caches are full of what others use")
)

// ErrDeadline is Result.Err of a try that Limits.Deadline ended: no fault of
// the replica's.
const ErrDeadline = plainError("the request's deadline is over")

// plainError is an error in this program's own words: nothing of it came from a
// replica, so it may be told.
type plainError string

func (e plainError) Error() string { return string(e) }

// Plain is what may be told of the error.
func (e plainError) Plain() string { return string(e) }

// Config wires a Handler. Pick is required; other nil funcs are not called.
// All of them are called from request goroutines and must not block, but for
// Pick within its context.
type Config struct {
	Peer string // value of X-Banyan-Peer

	// Pick chooses where the call goes. It is called once a try; Tried and
	// Attempt tell what happened before. An *openai.Error is answered as it
	// is, the sentinels above as they say, anything else as a 500.
	Pick func(ctx context.Context, call *Call) (*Target, error)
	// FirstToken is called at most once a try, for streamed answers, when the
	// first generated token passes.
	FirstToken func(target *Target, at time.Time)
	// Done is called exactly once for every Target of Pick, at the end of its
	// try (I1).
	Done func(target *Target, result Result)
	// Attempt makes one try: it sends req, whose context ends with the try.
	// Nil: Transport.RoundTrip(req). A dispatch in two legs goes here.
	Attempt func(call *Call, target *Target, req *http.Request) (*http.Response, error)
	// Down tells what is known of the replica of a try that waits for bytes of it.
	// It is asked after each Silence without one, by tries beside each other. Nil:
	// such tries wait as long as the limits let them.
	Down func(target *Target) Down
	// Silence is for how long no byte comes before Down is asked. [3s]
	Silence time.Duration
	// Models lists what /v1/models answers. Nil: nothing.
	Models func() []Model
	// Room tells how many more requests the replicas of a model take now; for
	// a model nobody serves any number. Nil: any number.
	Room func(model string) int
	// RoomToBegin is Room for conversations that wait since ErrCrowded. Nil: any
	// number.
	RoomToBegin func(model string) int
	// Serves reports why a model's requests may not wait: ErrUnknownModel or
	// ErrNoReplica while nobody is known to serve it, else invented names would
	// each fill a queue of their own. Nil: all may wait.
	Serves func(model string) error
	// Waited is called for every request that could not be dispatched at once,
	// when its wait is over or was refused.
	Waited func(how Outcome, waited time.Duration)
	// Draining reports whether this peer is on its way out (I7).
	Draining func() bool

	// Doubts reports whether a refusal (4xx) of the target is worth the opinion of
	// another replica: it refuses more than the others do. Nil: none is.
	Doubts func(target *Target) bool
	// Retried is called when a try is given up for another one.
	Retried func(cause Cause)
	// Resumed is called once a stream whose replica was lost after its first
	// byte, if Limits.Continue is on.
	Resumed func(how Resumption)
	// Refused is called for every answer that is not a try's own: those and
	// the results with Answered are all answers clients get.
	Refused func(status int)
	// Began is called once a request, before its body is read; Ended once after
	// it, when every try is done. Requests for the list of models are left out.
	// Began may set Call.Trail.
	Began func(call *Call)
	Ended func(call *Call, end End)
	// Hedged is called once a request that had a hedge.
	Hedged func(how HedgeOutcome)
	// Overhead is called once a request with the time between the end of the
	// client's body and the first dispatch.
	Overhead func(time.Duration)

	// Tracer makes the spans of requests, decisions and tries; the context of
	// Pick and Attempt carries the one they are part of. Nil: none, and a
	// client's traceparent reaches the replica as it came.
	Tracer    trace.Tracer
	Transport http.RoundTripper // to replicas; nil: NewTransport()
	Limits    Limits
	Admission Admission
	Hedge     Hedge

	// TenantHeader names the request header whose value separates tenants'
	// caches ("" for none): Salt makes the cache_salt of it.
	TenantHeader string
	// Salt is the cache_salt of a tenant's request, given what the client asked
	// for itself. It must be equal at all peers, at most 128 characters and free
	// of @ / \ and NUL. Nil: a hash without a secret.
	Salt func(tenant, given string) string
	// ResponseID names the answer that target will store for a call of the
	// responses API, so that whoever is asked for it later knows where it lies.
	// Nil, or an answer of "": the engine names it.
	ResponseID func(call *Call, target *Target) string
	// PolicyOverride lets X-Banyan-Policy reach Call.Policy.
	PolicyOverride bool
	// KeepAuthorization passes the client's Authorization and X-Api-Key headers
	// on to replicas that Target.Header has none for. Leave it off where the
	// client's key is this router's.
	KeepAuthorization bool
	// RetryStatus are the answers worth another replica; nil: 429, 500, 502, 503,
	// 504.
	RetryStatus []int

	MintID func() string // request ids; nil: 128 random bits in hex
}

// Limits bound what clients may ask. Zero means the default in brackets.
type Limits struct {
	BodyBytes    int64         // largest request body [32 MiB]
	BodiesBytes  int64         // of all bodies held at one time; more get 429 [1 GiB]
	BodyTimeout  time.Duration // for the client to send it [1m]
	Concurrency  int           // requests in flight [4096]
	Queue        int           // waiting for each model's replicas; more get 429 [4096; negative: none]
	QueueTimeout time.Duration // longest wait in the queue, then 429 [30s]
	FirstByte    time.Duration // a try's wait for the first byte of a streamed answer [5m]
	Answer       time.Duration // the same for whole answers, which come when generated [30m]
	Deadline     time.Duration // from the request to that byte, over all tries [0: none]
	Idle         time.Duration // between two reads of an answer that has begun; then it is cut [5m]
	Write        time.Duration // longest a client may leave an answer unread [5m]
	Retries      int           // tries after the first [2; negative: none]
	RetryRatio   float64       // retries per request over time [0.2]
	RetryMin     float64       // and per second besides [10]
	Continue     bool          // another replica goes on with a stream whose replica is lost [no]
}

func (l *Limits) fill() {
	fill(&l.BodyBytes, 32<<20)
	fill(&l.BodiesBytes, 1<<30)
	fill(&l.BodyTimeout, time.Minute)
	fill(&l.Concurrency, 4096)
	fill(&l.Queue, 4096)
	fill(&l.QueueTimeout, 30*time.Second)
	fill(&l.FirstByte, 5*time.Minute)
	fill(&l.Answer, 30*time.Minute)
	fill(&l.Idle, 5*time.Minute)
	fill(&l.Write, 5*time.Minute)
	fill(&l.Retries, 2)
	fill(&l.RetryRatio, 0.2)
	fill(&l.RetryMin, 10)
}

func fill[T int | int64 | float64 | time.Duration](value *T, standard T) {
	if *value == 0 {
		*value = standard
	}
}

// Call is one request of a client, over all its tries.
type Call struct {
	ID       string // minted here; the replica sees it as X-Request-Id
	Endpoint openai.Endpoint
	Path     string
	// Body is never nil; its CacheSalt already holds the tenant. Edits show
	// in the tries that follow.
	Body *openai.Request
	// Session is the conversation: X-Banyan-Session, else X-Session-ID, else
	// what the body says (openai.Request.Session); "" for none.
	Session string
	Stored  string // the stored response it is about, by path or as previous_response_id; "" for none
	Tenant  string // value of TenantHeader
	Client  string // whose key it carries, as WithClient says; "" if the key speaks for many
	Key     string // the name of that key, whoever it speaks for
	From    string // address that it came from: the client's or a balancer's
	Policy  string // the client's wish, if allowed
	Start   time.Time

	Hedge   bool     // another try is under way
	Attempt int      // 0 for the first try
	Tried   []string // Target.Replica of earlier tries
	Behind  bool     // conversations wait that came before it
	LetIn   bool     // it waited after ErrCrowded, and there is room
	// Memo is Pick's own: what it keeps from one try to the next.
	Memo any
	// Lost is the Memo of the call whose answer this one goes on with; nil: it is
	// a client's own.
	Lost any
	// Trail is Began's own: what is remembered of the request.
	Trail any

	ClientID string   // the client's X-Request-Id, if it is bounded and printable
	Trace    [16]byte // W3C trace id: the span's, else the client's; zero: none
}

// End is how a request ended, for the client.
type End struct {
	Status   int           // that the client was sent; 0: none
	Code     string        // of a refusal of this router's; "": it was no refusal
	Waited   time.Duration // for room
	Duration time.Duration // from the request to the end
	Left     bool          // the client went away first
	Cut      bool          // the answer broke off after its first byte
}

// Target is where one try goes, and why.
type Target struct {
	Replica string      // its name, for headers and Tried
	URL     string      // base, as http://host:port
	Header  http.Header // set on the request: rank, credentials
	Policy  string
	Reason  string
	Matched int // tokens believed cached there
	// NoHedge: no second try beside this one.
	NoHedge bool
	// NoUsage: do not ask this replica for usage on streams.
	NoUsage bool
	// Priority says how the engine's queue reads the field of that name: 0 not at
	// all, below 0 the lower number goes first, above 0 the higher. The number is
	// then this router's to set, whatever the client wrote.
	Priority int
	// Source is host:port of the P2P tier from which the engine should fetch what
	// it lacks of the prompt; "": it computes it.
	Source string
	// Tokens: it tells the token ids of a stream that asks for return_token_ids.
	Tokens bool
	Token  any // Pick's own, for FirstToken and Done
}

// Cause says why a try failed; a closed list.
type Cause string

// The causes.
const (
	CauseNone    Cause = ""
	CauseConnect Cause = "connect" // no connection
	CauseReset   Cause = "reset"   // lost before the answer was complete
	CauseStatus  Cause = "status"  // a status of Config.RetryStatus, or a doubted refusal
	CauseAnswer  Cause = "answer"  // status 200 and no answer of the API: Result.Wrong
	CauseTimeout Cause = "timeout" // no first byte in time
)

// Result is how a try ended.
type Result struct {
	Status     int   // the replica's; 0 if it gave none
	Err        error // why the answer is not complete; nil for any whole answer
	Cause      Cause
	Bytes      int64 // of the replica's body
	Usage      openai.Usage
	Finish     string        // finish_reason of a streamed answer
	TTFT       time.Duration // dispatch to first token; 0 if not streamed or none came
	Duration   time.Duration // dispatch to end
	ClientGone bool          // the client left first
	Failed     bool          // the replica reported an error inside the stream
	Wrong      openai.Wrong  // what is wrong with an answer of status 200
	RetryAfter time.Duration // how long a replica without room asks to be left alone; 0: it does not
	Answered   bool          // the client was given this try's answer, or a part of it
	Retried    bool          // another try follows, if Pick has a target
	Before     int           // tokens of the answer that earlier replicas generated
	NoBudget   bool          // another try would follow, but for the budget of retries
	Lost       bool          // another try of the same request began to answer first
}

// Model is one entry of /v1/models.
type Model struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Root        string `json:"root,omitempty"`
	Parent      string `json:"parent,omitempty"`
	MaxModelLen int    `json:"max_model_len,omitempty"`
}
