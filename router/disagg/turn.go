package disagg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

// errTimeout ends a prefill leg that took too long.
const errTimeout = plainError("the prefill replica did not answer in time")

// turns are the bodies of two legs that follow one another.
type turns struct {
	first  func(*openai.Request) ([]byte, error)
	read   func(answer []byte) (prefillAnswer, error)
	second func(*openai.Request, prefillAnswer) []byte
}

// turnsOf are those of an engine. The label disagg_request_id: "off" is for
// releases of TensorRT-LLM that know no such field.
func turnsOf(prefill *Server) turns {
	if prefill.Engine != "trtllm" {
		nixl := func(r *openai.Request) ([]byte, error) { return nixlPrefill(r), nil }
		return turns{nixl, readNIXL, nixlDecode}
	}
	return turns{func(r *openai.Request) ([]byte, error) {
		if prefill.Labels["disagg_request_id"] == "off" {
			return trtllmContext(r, 0), nil
		}
		id, err := drawRoom(nil)
		return trtllmContext(r, id), err
	}, readTRTLLM, trtllmGeneration}
}

// inTurn asks the prefill replica, then the decode replica with what the first
// one said. If the first one fails the decode replica gets the client's own
// body (I6); a refusal (400-451) is the client's to read.
func (l *Legs) inTurn(t *Try) (*http.Response, error) {
	by := turnsOf(&t.Prefill)
	leg, err := by.first(t.Body)
	if err != nil {
		t.Book.Ended(Failed, openai.Usage{}, time.Now())
		return nil, err
	}
	res, raw, err := l.ask(t, leg)
	now := time.Now()
	if gone := t.Request.Context().Err(); gone != nil {
		t.Book.PrefillBroke()
		t.Book.Ended(Left, openai.Usage{}, now)
		return nil, gone
	}
	var said prefillAnswer
	switch {
	case err != nil:
	case refusal(res.StatusCode):
		t.Book.Ended(Refused, openai.Usage{}, now)
		t.Book.AtPrefill()
		return res, nil
	case res.StatusCode != http.StatusOK:
		err = statusError(res.StatusCode)
	default:
		said, err = by.read(raw)
	}
	if err != nil {
		return l.decodeAlone(t, err, now)
	}
	t.Book.Ended(Answered, said.Usage, now)
	if said.Over {
		return l.over(t, res, raw)
	}
	return l.decodeLeg(t, withBody(t.Request, by.second(t.Body, said)))
}

// decodeAlone leaves the whole request to the decode replica: the prefill leg
// failed.
func (l *Legs) decodeAlone(t *Try, why error, now time.Time) (*http.Response, error) {
	how := Failed
	if errors.Is(why, errTimeout) {
		how = Timeout
	}
	l.Log.Debug("prefill leg failed", "replica", t.Prefill.Name, "how", string(how))
	t.Book.Ended(how, openai.Usage{}, now)
	t.Book.FellBack(why, now)
	return l.Transport.RoundTrip(t.Request)
}

// over answers with a prefill leg's own answer, in which generation ended. A
// stream is made anew by the decode replica: such an answer is no stream.
func (l *Legs) over(t *Try, res *http.Response, raw []byte) (*http.Response, error) {
	whole, err := trtllmWhole(raw)
	if t.Body.Stream || err != nil {
		return l.decodeLeg(t, t.Request)
	}
	t.Book.AtPrefill()
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(whole)), int64(len(whole))
	res.Header.Set("Content-Length", strconv.Itoa(len(whole)))
	return res, nil
}

// ask sends the prefill leg and reads its whole answer, bounded in size and
// time. The response carries the body again.
func (l *Legs) ask(t *Try, body []byte) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(t.Request.Context(), l.Timeout(), errTimeout)
	defer cancel()
	res, raw, err := l.exchange(ctx, t, body)
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		err = errTimeout
	}
	return res, raw, err
}

func (l *Legs) exchange(ctx context.Context, t *Try, body []byte) (*http.Response, []byte, error) {
	first, err := t.prefillRequest(ctx, body)
	if err != nil {
		return nil, nil, err
	}
	first, end := l.trace(first, prefillLeg, t.Prefill.Name)
	res, err := l.Transport.RoundTrip(first)
	defer func() { end(statusOf(res), err) }()
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(raw) > maxAnswerBytes:
		return nil, nil, errLarge
	}
	res.Body = io.NopCloser(bytes.NewReader(raw))
	return res, raw, nil
}

// refusal reports whether a status is for the client to read.
func refusal(status int) bool { return status >= 400 && status <= 451 }

func statusError(status int) error {
	return plainError(fmt.Sprintf("the prefill replica answered with status %d", status))
}
