package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// errPrefillTimeout ends a prefill leg that took too long.
var errPrefillTimeout = errors.New("the prefill replica did not answer in time")

// turns are the bodies of two legs that follow one another.
type turns struct {
	first  func(*openai.Request) ([]byte, error)
	read   func(answer []byte) (disagg.Answer, error)
	second func(*openai.Request, disagg.Answer) []byte
}

// turnsOf are those of an engine. The label disagg_request_id: "off" is for
// releases of TensorRT-LLM that know no such field.
func turnsOf(l *lead) turns {
	if l.engine != "trtllm" {
		nixl := func(r *openai.Request) ([]byte, error) { return disagg.NIXLPrefill(r), nil }
		return turns{nixl, disagg.ReadNIXL, disagg.NIXLDecode}
	}
	return turns{func(r *openai.Request) ([]byte, error) {
		if l.replica.Spec.Labels["disagg_request_id"] == "off" {
			return disagg.TRTLLMContext(r, 0), nil
		}
		id, err := disagg.Room(nil)
		return disagg.TRTLLMContext(r, id), err
	}, disagg.ReadTRTLLM, disagg.TRTLLMGeneration}
}

// inTurn asks the prefill replica, then the decode replica with what the first
// one said. If the first one fails the decode replica gets the client's own
// body; a refusal (400-451) is the client's to read.
func (p *pairs) inTurn(call *proxy.Call, target *proxy.Target, t *ticket, req *http.Request) (*http.Response, error) {
	body, by := outgoing(call, target), turnsOf(t.lead)
	leg, err := by.first(body)
	if err != nil {
		return nil, err
	}
	res, raw, err := p.ask(t, req, leg)
	now := time.Now()
	if gone := req.Context().Err(); gone != nil {
		t.lead.cut = true
		p.endLead(t, legLeft, openai.Usage{}, now)
		return nil, gone
	}
	var said disagg.Answer
	switch {
	case err != nil:
	case res.StatusCode >= 400 && res.StatusCode <= 451:
		p.endLead(t, legRefused, openai.Usage{}, now)
		target.Replica = t.lead.replica.Name()
		return res, nil
	case res.StatusCode != http.StatusOK:
		err = fmt.Errorf("the prefill replica answered with status %d", res.StatusCode)
	default:
		said, err = by.read(raw)
	}
	if err != nil {
		how := legFailed
		if errors.Is(err, errPrefillTimeout) {
			how = legTimeout
		}
		p.log.Debug("prefill leg failed", "replica", t.lead.replica.Name(), "err", err)
		p.endLead(t, how, openai.Usage{}, now)
		p.blameLead(t, err, now)
		p.fallBack(t, now)
		return p.transport.RoundTrip(req)
	}
	p.endLead(t, legAnswered, said.Usage, now)
	if said.Over {
		return p.over(call, target, t, req, res, raw)
	}
	return p.decodeLeg(t, withBody(req, by.second(body, said)))
}

// over answers with a prefill leg's own answer, in which generation ended. A
// stream is made anew by the decode replica: such an answer is no stream.
func (p *pairs) over(call *proxy.Call, target *proxy.Target, t *ticket, req *http.Request, res *http.Response, raw []byte) (*http.Response, error) {
	whole, err := disagg.TRTLLMWhole(raw)
	if call.Body.Stream || err != nil {
		return p.decodeLeg(t, req)
	}
	target.Replica = t.lead.replica.Name()
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(whole)), int64(len(whole))
	res.Header.Set("Content-Length", strconv.Itoa(len(whole)))
	return res, nil
}

// decodeLeg sends the decode leg.
func (p *pairs) decodeLeg(t *ticket, req *http.Request) (*http.Response, error) {
	req, span := p.traceLeg(req, "decode leg", t.replica.Name())
	return span.with(p.transport.RoundTrip(req))
}

// ask sends the prefill leg and reads its whole answer, bounded in size and
// time. The response carries the body again.
func (p *pairs) ask(t *ticket, req *http.Request, body []byte) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), p.rules.config().Routing.Disagg.Timeout, errPrefillTimeout)
	defer cancel()
	res, raw, err := p.exchange(t, ctx, req, body)
	if err != nil && errors.Is(context.Cause(ctx), errPrefillTimeout) {
		err = errPrefillTimeout
	}
	return res, raw, err
}

func (p *pairs) exchange(t *ticket, ctx context.Context, req *http.Request, body []byte) (*http.Response, []byte, error) {
	first, err := p.leadRequest(t, ctx, req, body)
	if err != nil {
		return nil, nil, err
	}
	first, span := p.traceLeg(first, "prefill leg", t.lead.replica.Name())
	res, err := p.transport.RoundTrip(first)
	defer func() { span.end(res, err) }()
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, disagg.MaxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(raw) > disagg.MaxAnswerBytes:
		return nil, nil, fmt.Errorf("the prefill answer is larger than %d bytes", disagg.MaxAnswerBytes)
	}
	res.Body = io.NopCloser(bytes.NewReader(raw))
	return res, raw, nil
}

// leadRequest is the prefill leg of a try.
func (p *pairs) leadRequest(t *ticket, ctx context.Context, req *http.Request, body []byte) (*http.Request, error) {
	first, err := http.NewRequestWithContext(ctx, req.Method, strings.TrimSuffix(t.lead.replica.Spec.URL, "/")+req.URL.EscapedPath(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	first.URL.RawQuery = req.URL.RawQuery
	first.Header = t.leadHeader(req.Header)
	return first, nil
}

// withBody is the request with another body.
func withBody(req *http.Request, body []byte) *http.Request {
	second := req.Clone(req.Context())
	second.ContentLength = int64(len(body))
	second.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	second.Body, _ = second.GetBody()
	return second
}

// hard reports whether nobody listened.
func hard(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
