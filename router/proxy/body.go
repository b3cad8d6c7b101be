package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

// readBody reads, parses and cleans the body and fills the call from it.
func (x *exchange) readBody() *openai.Error {
	raw, fail := x.slurp()
	if fail != nil {
		return fail
	}
	x.size = len(raw)
	if fail := x.parse(raw); fail != nil {
		return fail
	}
	call := x.call
	if x.cfg.TenantHeader != "" {
		call.Tenant = x.r.Header.Get(x.cfg.TenantHeader)
		x.isolate()
	}
	call.Session = x.session()
	if call.Stored = openai.StoredResponse(x.r.URL.Path); call.Stored == "" {
		call.Stored = call.Body.Previous
	}
	if x.cfg.PolicyOverride {
		call.Policy = x.r.Header.Get("X-Banyan-Policy")
	}
	x.read = time.Now()
	return nil
}

// sessionHeaders name a conversation, ours before vLLM's; a body's fields come
// after them.
var sessionHeaders = []string{"X-Banyan-Session", "X-Session-Id"}

func (x *exchange) session() string {
	for _, name := range sessionHeaders {
		if value := x.r.Header.Get(name); value != "" {
			return value
		}
	}
	return x.call.Body.Session
}

// slurp reads the body within its limits of size and time.
func (x *exchange) slurp() ([]byte, *openai.Error) {
	limit, length := x.limits.BodyBytes, x.r.ContentLength
	if length > limit {
		return nil, x.refuseUpload(errTooLarge)
	}
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return []byte{}, nil
	}
	// Bodies being read are bounded by their bytes together, not by their number:
	// clients that dribble would take every place.
	_ = x.rc.SetReadDeadline(time.Now().Add(x.limits.BodyTimeout))
	body, err := x.readUpTo(limit, length)
	if err != nil {
		return nil, x.refuseUpload(err)
	}
	// Only now: after a failure the server reads on for a while, and must not
	// wait for a client that sends nothing.
	_ = x.rc.SetReadDeadline(time.Time{})
	return body, nil
}

var (
	errTooLarge = errors.New("the body is larger than this router allows")
	errNoMemory = errors.New("too many large requests are being served")
)

// refuseUpload ends the connection with the answer: the rest of the body may
// be anything.
func (x *exchange) refuseUpload(err error) *openai.Error {
	x.w.Header().Set("Connection", "close")
	switch {
	case errors.Is(err, errTooLarge):
		return refusal(http.StatusRequestEntityTooLarge, "request_too_large", err.Error())
	case errors.Is(err, errNoMemory):
		return refusal(http.StatusTooManyRequests, "overloaded", err.Error())
	}
	return refusal(http.StatusBadRequest, "incomplete_body", "the body ended early or came too slowly")
}

// readUpTo reads to the end, at most limit bytes; length is the announced
// size or -1. Only what arrives takes memory and is counted: an announcement
// costs nothing.
func (x *exchange) readUpTo(limit, length int64) ([]byte, error) {
	const first, most = 4 << 10, 256 << 10
	size := int64(first)
	if length >= 0 {
		size = min(length, most) + 1 // one more, to see the end without growing
	}
	var body []byte
	for {
		if len(body) > 0 && len(body) == cap(body) {
			size = min(2*size, limit+1)
			if length >= 0 {
				size = min(size, length+1)
			}
		}
		if !x.hold(size) {
			return nil, errNoMemory
		}
		if int64(cap(body)) < size {
			body = append(make([]byte, 0, size), body...)
		}
		n, err := x.r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, errTooLarge
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// bodyCopies is what a body takes for each of its bytes: while it grows the old
// and the new buffer, afterwards the text of its prompt.
const bodyCopies = 2

// hold takes memory for a body of so many bytes before there is one.
func (x *exchange) hold(bytes int64) bool {
	more := bodyCopies*bytes - x.held
	if more > 0 && !x.bodies.take(more) {
		return false
	}
	x.held += max(more, 0)
	return true
}

func (x *exchange) returnBody() {
	x.bodies.put(x.held)
	if x.rest != nil {
		x.bodies.put(x.rest.held)
	}
}

// meter bounds the bytes of all bodies together.
type meter struct {
	most int64 // immutable
	used atomic.Int64
}

func (m *meter) take(n int64) bool {
	if m.used.Add(n) > m.most {
		m.used.Add(-n)
		return false
	}
	return true
}

func (m *meter) put(n int64) { m.used.Add(-n) }

// parse reads the body as what its endpoint takes; other endpoints may take
// anything. What an engine could parse as JSON is parsed here first, whatever
// its content type says, or is refused: else a disguise would carry the fields
// that only routers may set past StripInternal (I5).
func (x *exchange) parse(raw []byte) *openai.Error {
	call, header := x.call, x.r.Header
	known := call.Endpoint != openai.Other
	if fail := checkMedia(header, known); fail != nil {
		return fail
	}
	raw, err := x.narrow(raw, known)
	if err != nil {
		return asRefusal(err)
	}
	var body *openai.Request
	switch first := firstByte(raw); {
	case known, first == '{':
		body, err = openai.Parse(call.Endpoint, raw)
	case first == '[':
		if raw, err = openai.StripList(raw); err == nil {
			body = openai.Opaque(raw)
		}
	default:
		body = openai.Opaque(raw)
	}
	if err != nil {
		return asRefusal(err)
	}
	body.StripInternal()
	call.Body = body
	return nil
}

func asRefusal(err error) *openai.Error {
	var fail *openai.Error
	if !errors.As(err, &fail) {
		fail = openai.Invalid("", err.Error())
	}
	return fail
}

// narrow turns UTF-16 and UTF-32, which engines take for JSON as well, into
// UTF-8: from here on there is one way to read a body. Bytes that nobody takes
// for JSON (audio in a form) stay as they are.
func (x *exchange) narrow(raw []byte, known bool) ([]byte, error) {
	if !openai.IsWide(raw) || !known && !mayBeJSON(x.r.Header) {
		return raw, nil
	}
	more := int64(openai.WidestGrowth * float64(len(raw)))
	if !x.bodies.take(more) {
		return nil, x.refuseUpload(errNoMemory)
	}
	x.held += more
	text, err := openai.Narrow(raw)
	if first := firstByte(text); err == nil && !known && first != '{' && first != '[' {
		return nil, refusal(http.StatusUnsupportedMediaType, "unsupported_media_type", "the body is not JSON: name its content type")
	}
	return text, err
}

// mayBeJSON reports whether an engine may parse a body as JSON, going by its
// content type.
func mayBeJSON(header http.Header) bool {
	kind := strings.Join(header["Content-Type"], ",")
	return kind == "" || strings.Contains(strings.ToLower(kind), "json")
}

// checkMedia refuses what the headers say of a body where an engine could read
// it as JSON and this router could not.
func checkMedia(header http.Header, known bool) *openai.Error {
	unsupported := func(message string) *openai.Error {
		return refusal(http.StatusUnsupportedMediaType, "unsupported_media_type", message)
	}
	kind := strings.Join(header["Content-Type"], ",")
	if !known && !mayBeJSON(header) {
		return nil
	}
	switch how := header.Get("Content-Encoding"); {
	case known && kind != "" && !isJSON(kind):
		return unsupported("the content type must be application/json")
	case how != "" && how != "identity":
		return unsupported("the body must not be compressed: send it without content-encoding")
	}
	return nil
}

// firstByte is the first byte of a JSON value, 0 if there is none.
func firstByte(raw []byte) byte {
	raw = bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("\ufeff")), " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// isJSON reads a content type as the engines do: FastAPI and vLLM look at what
// stands before the first semicolon and at nothing behind it.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}
