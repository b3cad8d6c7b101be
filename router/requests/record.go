package requests

import (
	"strings"
	"time"
)

// MaxWord bounds a word that a client chose, in bytes.
const MaxWord = 128

// MaxTries bounds the tries kept of one request; further ones are counted.
const MaxTries = 8

// Unknown is a number of tokens that nobody told.
const Unknown = -1

// Words of Record.Error that are no code of an answer.
const (
	ErrCut      = "cut"         // the answer broke off after its first byte
	ErrInStream = "in_stream"   // the replica told of an error inside the stream
	ErrWrong    = "wrong"       // status 200, but no whole answer of the API
	ErrLeft     = "client_left" // the client went away before the end
)

// Record is what is known of one request. The zero value is an empty one.
type Record struct {
	ID       string    // as in the header X-Request-Id of the answer
	ClientID string    // the client's own X-Request-Id
	Trace    [16]byte  // W3C trace id; zero: none
	At       time.Time // when it came
	Client   string    // name of the client's key
	Tenant   string
	Model    string
	Endpoint string // path of a known endpoint, else other
	Stream   bool

	Replica string // whose answer the client was given, else the last one tried
	Decode  string // the replica that decoded, if another one
	Policy  string
	Reason  string // of the choice
	Matched int    // prompt tokens believed cached there; Unknown if no replica was chosen

	Status int    // the client's; 0: none was sent
	Error  string // the code of a refusal, or one of the words above; "": none

	Queue    time.Duration // waited for room
	TTFT     time.Duration // from the request to the first token; 0: not streamed, or none came
	Duration time.Duration // from the request to the end

	Prompt, Cached, Output int // tokens as the engine told; Unknown if it did not

	Tries []Try
	More  int // tries beyond MaxTries
}

// Try is one dispatch to a replica.
type Try struct {
	Replica string
	Status  int    // the replica's; 0: none
	Cause   string // why it failed: connect, reset, status, answer, timeout, or CauseLeft; "": it did not
	Detail  string // the same in words
	Lost    bool   // the other try of a hedge answered first
	Before  int    // tokens of the answer that replicas before it generated, and it went on from
	Begin   time.Duration
	Took    time.Duration
}

// CauseLeft is the cause of a try that ended with its client.
const CauseLeft = "client_left"

// Failed reports whether the client got no whole, good answer for a reason
// that was not its own leaving.
func (r *Record) Failed() bool {
	return r.Status >= 400 || r.Error == ErrCut || r.Error == ErrInStream || r.Error == ErrWrong || r.Status == 0 && r.Error != ErrLeft
}

// Slow reports whether the client waited longer than the limit for the first
// token, or without a stream for the answer. A limit of 0 finds nothing slow.
func (r *Record) Slow(limit time.Duration) bool {
	waited := r.TTFT
	if waited == 0 {
		waited = r.Duration
	}
	return limit > 0 && waited >= limit
}

// Retried reports whether more than one replica was asked.
func (r *Record) Retried() bool { return len(r.Tries) > 1 }

// Notable reports whether people will ask about the request: it failed, was
// slow or was retried. What a client did wrong itself is not: by it a client
// could push out what is.
func (r *Record) Notable(slow time.Duration) bool {
	own := r.Status >= 400 && r.Status < 500 && r.Status != 429
	return r.Failed() && !own || r.Slow(slow) || r.Retried()
}

// Word cuts what a client chose to MaxWord bytes. A short word is returned as
// it is; a cut one shares no memory with it.
func Word(s string) string {
	if len(s) <= MaxWord {
		return s
	}
	return strings.Clone(s[:MaxWord])
}
