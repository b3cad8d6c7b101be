package disagg

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
)

// prefillRequest is the prefill leg of a try.
func (t *Try) prefillRequest(ctx context.Context, body []byte) (*http.Request, error) {
	from := t.Request
	first, err := http.NewRequestWithContext(ctx, from.Method, strings.TrimSuffix(t.Prefill.URL, "/")+from.URL.EscapedPath(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	first.URL.RawQuery = from.URL.RawQuery
	first.Header = t.prefillHeader()
	return first, nil
}

// prefillHeader is the header of the prefill leg: the try's, but for what names
// or authorizes at the decode replica (I5).
func (t *Try) prefillHeader() http.Header {
	header := t.Request.Header.Clone()
	header.Del("X-Data-Parallel-Rank")
	for name := range t.Decode.Header {
		header.Del(name)
	}
	maps.Copy(header, t.Prefill.Header)
	return header
}

// decodeLeg sends the decode leg.
func (l *Legs) decodeLeg(t *Try, req *http.Request) (*http.Response, error) {
	req, end := l.trace(req, "decode leg", t.Decode.Name)
	res, err := l.Transport.RoundTrip(req)
	if l.Trace == nil || err != nil {
		end(statusOf(res), err)
		return res, err
	}
	res.Body = &tracedBody{res.Body, func() { end(res.StatusCode, nil) }}
	return res, nil
}

// withBody is the request with another body.
func withBody(req *http.Request, body []byte) *http.Request {
	second := req.Clone(req.Context())
	second.ContentLength = int64(len(body))
	second.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	second.Body, _ = second.GetBody()
	return second
}
