package proxy

import (
	"errors"
	"io"
	"mime"
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
	call.Client, _ = x.r.Context().Value(clientKey{}).(string)
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
	body := make([]byte, 0, size)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		if taken := int64(cap(body)); taken > x.held {
			if !x.bodies.take(taken - x.held) {
				return nil, errNoMemory
			}
			x.held = taken
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

func (x *exchange) returnBody() { x.bodies.put(x.held) }

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
	if how := x.r.Header.Get("Content-Encoding"); how != "" && how != "identity" {
		return refusal(http.StatusUnsupportedMediaType, "unsupported_media_type", "the body must not be compressed: send it without content-encoding")
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
