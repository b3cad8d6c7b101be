package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

// Handler is the public listener's API under /v1/ and /tokenize. Safe for
// concurrent use.
type Handler struct {
	cfg    Config
	gate   *gate
	budget *budget

	disconnects atomic.Uint64
}

// New returns a Handler.
func New(cfg Config) (*Handler, error) {
	if cfg.Pick == nil {
		return nil, errors.New("proxy: Pick is required")
	}
	cfg.Limits.fill()
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.RetryStatus == nil {
		cfg.RetryStatus = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	}
	if cfg.MintID == nil {
		cfg.MintID = mintID
	}
	return &Handler{
		cfg:    cfg,
		gate:   newGate(cfg.Limits.Concurrency, cfg.Limits.Queue),
		budget: newBudget(cfg.Limits.RetryRatio, cfg.Limits.RetryMin),
	}, nil
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
	Disconnects uint64 // clients that left before their answer ended
}

// Stats returns the figures.
func (h *Handler) Stats() Stats {
	inFlight, queued := h.gate.load()
	return Stats{InFlight: inFlight, Queued: queued, Disconnects: h.disconnects.Load()}
}

// exchange is one request being answered.
type exchange struct {
	*Handler
	w    http.ResponseWriter
	rc   *http.ResponseController
	r    *http.Request
	call *Call
	read time.Time // when the body was complete
}

// ServeHTTP answers one request: route, admit, read, try.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Handler: h, w: w, rc: http.NewResponseController(w), r: r}
	x.call = &Call{ID: h.cfg.MintID(), Path: r.URL.Path, Start: time.Now()}
	x.identify()
	if fail := x.route(); fail != nil {
		x.refuse(fail)
		return
	}
	if x.isModels() {
		x.serveModels()
		return
	}
	release, err := h.gate.acquire(r.Context(), h.cfg.Limits.QueueTimeout)
	if err != nil {
		x.refuseBusy(err)
		return
	}
	defer release()
	if fail := x.readBody(); fail != nil {
		x.refuse(fail)
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
	}
	if x.cfg.Draining != nil && x.cfg.Draining() || expired(x.r.Context(), x.call.Start) {
		header["Connection"] = []string{"close"}
	}
}

// denied are paths under /v1/ that change one replica only: an operator's
// work, not a client's.
var denied = map[string]bool{"/v1/load_lora_adapter": true, "/v1/unload_lora_adapter": true}

// route refuses paths and methods that this listener does not serve.
func (x *exchange) route() *openai.Error {
	p := x.r.URL.Path
	x.call.Endpoint = openai.EndpointOf(p)
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
	case !strings.HasPrefix(p, "/v1/") || denied[p] || strings.TrimSuffix(p, "/") != path.Clean(p):
		return refusal(http.StatusNotFound, "not_found", "there is nothing at this path")
	case x.r.Method == http.MethodConnect || x.r.Method == http.MethodTrace:
		return refusal(http.StatusMethodNotAllowed, "method_not_allowed", "the method is not allowed here")
	}
	return nil
}

// readBody reads, parses and cleans the body and fills the call from it.
func (x *exchange) readBody() *openai.Error {
	raw, fail := x.slurp()
	if fail != nil {
		return fail
	}
	if fail := x.parse(raw); fail != nil {
		return fail
	}
	call := x.call
	if x.cfg.TenantHeader != "" {
		call.Tenant = x.r.Header.Get(x.cfg.TenantHeader)
		isolate(call)
	}
	if call.Session = x.r.Header.Get("X-Banyan-Session"); call.Session == "" {
		call.Session = call.Body.User
	}
	if x.cfg.PolicyOverride {
		call.Policy = x.r.Header.Get("X-Banyan-Policy")
	}
	x.read = time.Now()
	return nil
}

// slurp reads the body within its limits of size and time.
func (x *exchange) slurp() ([]byte, *openai.Error) {
	limit, length := x.cfg.Limits.BodyBytes, x.r.ContentLength
	if length > limit {
		return nil, x.tooLarge()
	}
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return []byte{}, nil
	}
	_ = x.rc.SetReadDeadline(time.Now().Add(x.cfg.Limits.BodyTimeout))
	body, err := readUpTo(x.r.Body, limit, length)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, x.tooLarge()
	case err != nil:
		x.w.Header().Set("Connection", "close")
		return nil, refusal(http.StatusBadRequest, "incomplete_body", "the body ended early or came too slowly")
	}
	// Only now: after a failure the server reads on for a while, and must not
	// wait for a client that sends nothing.
	_ = x.rc.SetReadDeadline(time.Time{})
	return body, nil
}

func (x *exchange) tooLarge() *openai.Error {
	x.w.Header().Set("Connection", "close")
	return refusal(http.StatusRequestEntityTooLarge, "request_too_large", "the body is larger than this router allows")
}

var errTooLarge = errors.New("the body is too large")

// readUpTo reads to the end, at most limit bytes; length is the announced
// size or -1. What is announced but not sent costs no memory.
func readUpTo(r io.Reader, limit, length int64) ([]byte, error) {
	const first, most = 4 << 10, 1 << 20
	size := int64(first)
	if length >= 0 {
		size = min(length, most) + 1 // one more, to see the end without growing
	}
	body := make([]byte, 0, size)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) > limit {
			return nil, errTooLarge
		}
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// parse reads the body as what its endpoint takes; other endpoints may take
// anything.
func (x *exchange) parse(raw []byte) *openai.Error {
	call, isJSON := x.call, isJSON(x.r.Header.Get("Content-Type"))
	if call.Endpoint == openai.Other && (!isJSON || len(raw) == 0 || !looksLikeObject(raw)) {
		call.Body = openai.Opaque(raw)
		return nil
	}
	if !isJSON && x.r.Header.Get("Content-Type") != "" {
		return refusal(http.StatusUnsupportedMediaType, "unsupported_media_type", "the content type must be application/json")
	}
	body, err := openai.Parse(call.Endpoint, raw)
	if err != nil {
		var fail *openai.Error
		if !errors.As(err, &fail) {
			fail = openai.Invalid("", err.Error())
		}
		return fail
	}
	body.StripInternal()
	call.Body = body
	return nil
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

func looksLikeObject(raw []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(string(raw[:min(len(raw), 64)]), " \t\r\n"), "{")
}
