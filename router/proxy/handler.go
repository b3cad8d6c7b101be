package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"math"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/banyan-llm/banyan/router/admission"
	"github.com/banyan-llm/banyan/router/openai"
)

// Handler is the public listener's API: what is under /v1/ and the endpoints of
// package openai. Safe for concurrent use.
type Handler struct {
	cfg    Config
	limits atomic.Pointer[Limits]
	gate   *gate
	budget *budget
	hedges *budget
	bodies *meter

	firstBytes  waits
	buffers     sync.Pool // of *[bufferBytes]byte
	disconnects atomic.Uint64
}

// New returns a Handler.
func New(cfg Config) (*Handler, error) {
	if cfg.Pick == nil {
		return nil, errors.New("proxy: Pick is required")
	}
	cfg.Limits.fill()
	fill(&cfg.Silence, 3*time.Second)
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.RetryStatus == nil {
		cfg.RetryStatus = []int{
			http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		}
	}
	if cfg.Salt == nil {
		cfg.Salt = plainSalt
	}
	cfg.Admission.Classes = max(cfg.Admission.Classes, 1)
	if cfg.MintID == nil {
		cfg.MintID = mintID
	}
	h := &Handler{
		cfg: cfg,
		gate: newGate(cfg.Limits.Concurrency, admission.Config{
			Classes: cfg.Admission.Classes, Limit: max(cfg.Limits.Queue, 0), TenantLimit: cfg.Admission.TenantQueue,
		}, cfg.room()),
		budget: newBudget(cfg.Limits.RetryRatio, cfg.Limits.RetryMin),
		hedges: newBudget(cfg.Hedge.Ratio, 0),
		bodies: &meter{most: cfg.Limits.BodiesBytes},
	}
	h.limits.Store(&cfg.Limits)
	h.buffers.New = func() any { return new([bufferBytes]byte) }
	return h, nil
}

// room tells how many more requests a pool takes; nil: any number.
func (c *Config) room() func(poolName) int {
	if c.Room == nil && c.RoomToBegin == nil {
		return nil
	}
	return func(p poolName) int {
		room := c.Room
		if p.begins {
			room = c.RoomToBegin
		}
		if room == nil {
			return math.MaxInt
		}
		return room(p.model)
	}
}

// SetLimits replaces the limits, for requests that come from now on and for the
// queue. The bytes of all bodies and the budget of retries stay as they were.
func (h *Handler) SetLimits(l Limits) {
	l.fill()
	h.limits.Store(&l)
	h.gate.resize(l.Concurrency, l.Queue)
}

func mintID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails since Go 1.24
	return hex.EncodeToString(id[:])
}

// Stats are the figures of now, and counters since the start.
type Stats struct {
	InFlight    int
	Queued      int
	Classes     []int         // Queued by priority class
	Tenants     int           // that wait
	Oldest      time.Duration // the longest wait so far of who waits
	BodyBytes   int64         // of request bodies held
	Disconnects uint64        // clients that left before their answer ended
}

// Stats returns the figures.
func (h *Handler) Stats() Stats {
	l := h.gate.lineup()
	s := Stats{
		InFlight: int(h.gate.inFlight.Load()), Queued: int(h.gate.waiting.Load()), Classes: l.classes, Tenants: l.tenants,
		BodyBytes: h.bodies.used.Load(), Disconnects: h.disconnects.Load(),
	}
	if !l.oldest.IsZero() {
		s.Oldest = time.Since(l.oldest)
	}
	return s
}

// exchange is one request being answered.
type exchange struct {
	*Handler
	limits *Limits
	w      http.ResponseWriter
	rc     *http.ResponseController
	r      *http.Request
	call   *Call
	span   trace.Span
	begun  time.Time // when it came
	read   time.Time // when the body was complete
	held   int64     // bytes taken of bodies
	size   int       // of the body, in bytes

	refused *try           // the last one that ended with an answer worth another's opinion
	out     *sink          // the client's end of an answer that has begun
	rest    *unfinished    // what it takes to continue it; nil: that is off
	racers  sync.WaitGroup // tries beside each other
	turn    turn
	placed  bool          // it holds a place of gate
	waited  time.Duration // in line
	end     End
}

// ServeHTTP answers one request: route, read, admit, try.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Handler: h, limits: h.limits.Load(), w: w, rc: http.NewResponseController(w), r: r}
	x.begun = time.Now()
	x.call = &Call{ID: h.cfg.MintID(), Path: r.URL.Path, Start: x.begun}
	x.call.From, _, _ = net.SplitHostPort(r.RemoteAddr)
	x.identify()
	x.call.Endpoint = openai.EndpointOf(r.URL.Path)
	x.traced()
	defer x.span.End()
	if !x.isModels() {
		x.began()
		defer x.ended()
	}
	if fail := x.route(); fail != nil {
		x.refuse(fail)
		return
	}
	if x.isModels() {
		x.serveModels()
		return
	}
	defer x.returnBody()
	if fail := x.readBody(); fail != nil {
		x.refuse(fail)
		return
	}
	defer x.leavePlace()
	if err := x.admit(); err != nil {
		x.giveUp(nil, err)
		return
	}
	x.forward()
}

// identify sets the headers that every answer carries.
func (x *exchange) identify() {
	header := x.w.Header()
	header["X-Request-Id"] = []string{x.call.ID}
	if x.cfg.Peer != "" {
		header["X-Banyan-Peer"] = []string{x.cfg.Peer}
	}
	if id := x.r.Header.Get("X-Request-Id"); id != "" && len(id) <= maxClientID && printable(id) {
		header["X-Client-Request-Id"] = []string{id}
		x.call.ClientID = id
	}
}

// began and ended frame what is remembered of the request.
func (x *exchange) began() {
	x.call.Trace = x.traceID()
	x.call.Key, x.call.Client = client(x.r)
	if x.cfg.Began != nil {
		x.cfg.Began(x.call)
	}
}

func (x *exchange) ended() {
	x.end.Waited, x.end.Duration = x.waited, time.Since(x.begun) // a continued answer's call began later
	if x.cfg.Ended != nil {
		x.cfg.Ended(x.call, x.end)
	}
}

// lastHeader is called just before the header of an answer goes out: a drain
// may have begun while it was generated (I7).
func (x *exchange) lastHeader() {
	if x.cfg.Draining != nil && x.cfg.Draining() || expired(x.r.Context(), time.Now()) {
		x.w.Header()["Connection"] = []string{"close"}
	}
}

// denied are paths under /v1/ that change one replica only: an operator's
// work, not a client's.
var denied = map[string]bool{"/v1/load_lora_adapter": true, "/v1/unload_lora_adapter": true}

// route refuses paths and methods that this listener does not serve.
func (x *exchange) route() *openai.Error {
	p := x.r.URL.Path
	bare := strings.TrimRight(p, "/")
	switch {
	case x.call.Endpoint != openai.Other:
		if x.r.Method != http.MethodPost {
			x.w.Header().Set("Allow", "POST")
			return refusal(http.StatusMethodNotAllowed, "method_not_allowed", "only POST is allowed here")
		}
	case x.isModels():
		if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
			x.w.Header().Set("Allow", "GET, HEAD")
			return refusal(http.StatusMethodNotAllowed, "method_not_allowed", "only GET is allowed here")
		}
	case bare != p && openai.EndpointOf(bare) != openai.Other:
		return refusal(http.StatusNotFound, "not_found", "there is nothing at this path: it is "+bare+", without a slash at its end")
	case !strings.HasPrefix(p, "/v1/") || denied[bare] || strings.TrimSuffix(p, "/") != path.Clean(p):
		return refusal(http.StatusNotFound, "not_found", "there is nothing at this path: the API is under /v1/; status, metrics and the console are on the admin listener")
	case x.r.Method == http.MethodConnect || x.r.Method == http.MethodTrace:
		return refusal(http.StatusMethodNotAllowed, "method_not_allowed", "the method is not allowed here")
	}
	return nil
}
