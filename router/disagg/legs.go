package disagg

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/openai"
)

// Outcome is how a prefill leg ended; a closed list, used as a metric label.
type Outcome string

// Outcomes of prefill legs.
const (
	Answered Outcome = "answered"
	Refused  Outcome = "refused" // 400-451: the client is told
	Failed   Outcome = "failed"  // no whole answer, or another status
	Timeout  Outcome = "timeout"
	Left     Outcome = "left" // the client went away
)

// Outcomes are all of them.
var Outcomes = []Outcome{Answered, Refused, Failed, Timeout, Left}

// Server is one replica of a pair.
type Server struct {
	Name, URL string
	Engine    string            // vllm, sglang or trtllm
	Header    http.Header       // what only this replica is told: credentials, rank
	Labels    map[string]string // bootstrap_port, disagg_request_id

	Ranked      bool // one data-parallel rank of several behind its URL
	Rank, Ranks int
}

// Try is one try of a request at two replicas.
type Try struct {
	Request         *http.Request   // as it goes to the decode replica; its context ends the try
	Body            *openai.Request // the request's body
	Prefill, Decode Server
	Book            Book
}

// Book is told what becomes of a try. All but Ended are called by whoever sends
// the try or reads its answer.
type Book interface {
	// Ended is called once a try, when its prefill leg is over (I4). It may be
	// called by another goroutine, and after the end of the answer.
	Ended(how Outcome, usage openai.Usage, at time.Time)
	// FellBack is called when the prefill replica failed and the decode replica
	// is about to be asked for the whole of the request.
	FellBack(why error, at time.Time)
	// AtPrefill is called when the prefill replica is the one that answers the
	// client, or the one not to try again.
	AtPrefill()
	// PrefillBroke is called when the try's error is the prefill leg's, or came
	// while that leg alone was under way.
	PrefillBroke()
}

// Legs sends the tries that a prefill and a decode replica share. Many
// goroutines may use it.
type Legs struct {
	Transport http.RoundTripper
	Timeout   func() time.Duration // of a prefill leg, asked at its start
	Log       hclog.Logger
	// Trace begins the span of a leg and names it to the replica; what it
	// returns ends the span, with the answer's status, 0 if there is none. Nil:
	// no spans.
	Trace func(req *http.Request, leg, replica string) (*http.Request, func(status int, err error))

	running running // prefill legs that may outlive their answers
}

// Send makes the try. The answer is the one that the client reads.
func (l *Legs) Send(t *Try) (*http.Response, error) {
	if t.Prefill.Engine == "sglang" {
		return l.atOnce(t)
	}
	return l.inTurn(t)
}

// Stop ends the prefill legs that outlive their answers, and waits for them. No
// try may be sent any more.
func (l *Legs) Stop() { l.running.stop() }
