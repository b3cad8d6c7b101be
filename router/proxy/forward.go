package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/banyan-llm/banyan/router/openai"
)

// bufferBytes is what one read from a replica takes at most.
const bufferBytes = 32 << 10

// errFirstByte ends a try that waited too long.
const errFirstByte = plainError("no first byte in time")

// errProtocol ends a try whose replica speaks something else from here on.
const errProtocol = plainError("the replica switched protocols")

// try is one dispatch of a call to one target.
type try struct {
	target  *Target
	start   time.Time
	ctx     context.Context //nolint:containedctx // the try's own, from newTry to run
	cancel  context.CancelCauseFunc
	span    trace.Span
	hedge   bool // another try was under way already
	asked   bool // usage was asked for on the client's behalf
	tokens  bool // and token ids
	resumes bool // it goes on with an answer whose replica was lost
	result  Result

	res      *http.Response
	buffer   *[bufferBytes]byte
	first    []byte // first bytes of the body, in buffer
	firstErr error  // what the first read returned
	held     []byte // body of an answer that is worth a retry, bounded

	timer *time.Timer   // looks whether the replica is down; nil: nobody tells
	reads atomic.Uint64 // waits for bytes of it, begun and ended
	last  bool          // no other try may follow
	stuck atomic.Bool   // the client has a part of the answer, and no other replica can go on
	paid  atomic.Bool   // the budget has paid for the try that follows
}

// forward tries replicas until one answers or no try is left. If one is lost in
// the middle of a stream, and that is on, the next one goes on with it.
func (x *exchange) forward() {
	x.budget.request(x.read)
	if x.cfg.Hedge.on() {
		x.hedges.request(x.read)
		defer x.racers.Wait()
	}
	x.unfinish()
	var last *try
	for {
		target, err := x.pick()
		if err != nil {
			x.giveUp(last, err)
			return
		}
		t := x.try(target)
		if t.result.Cause == CauseNone {
			if x.deliver(t) {
				return
			}
		} else {
			if t.result.Cause == CauseStatus {
				x.refused = t
			}
			t.result.Retried = x.mayRetry(t)
			t.result.Answered = !t.result.Retried && t.passable() && !t.result.ClientGone && x.out == nil
			x.finish(t)
		}
		last = t
		if !t.result.Retried {
			x.giveUp(last, nil)
			return
		}
		x.span.AddEvent("retry", trace.WithAttributes(attribute.String("banyan.cause", string(t.result.Cause))))
		if x.cfg.Retried != nil {
			x.cfg.Retried(t.result.Cause)
		}
		x.call.Attempt++
		x.call.Tried = append(x.call.Tried, t.target.Replica)
	}
}

// mayRetry reports whether a failed try is followed by another.
func (x *exchange) mayRetry(t *try) bool {
	switch {
	case t.result.ClientGone || x.r.Context().Err() != nil:
		return false
	case x.call.Attempt >= x.limits.Retries || x.remaining() <= 0:
		return false
	case t.result.Cause != CauseConnect && !x.repeatable():
		return false
	case t.paid.Load():
		return true
	}
	t.result.NoBudget = !x.budget.take(time.Now())
	return !t.result.NoBudget
}

// remaining is how long the first byte of the answer may still take.
func (x *exchange) remaining() time.Duration {
	if x.limits.Deadline <= 0 {
		return math.MaxInt64
	}
	return time.Until(x.call.Start.Add(x.limits.Deadline))
}

// repeatable reports whether a request may run twice. Inference may; what
// else POSTs to the engine do is unknown.
func (x *exchange) repeatable() bool {
	return x.call.Endpoint != openai.Other || x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
}

// giveUp answers for a call without an answer: as the last try failed, or as
// Pick said if there was none. A stream that has begun is broken off.
func (x *exchange) giveUp(last *try, picked error) {
	switch {
	case x.r.Context().Err() != nil:
		x.left()
	case x.out != nil:
		x.breakOff()
	case last == nil:
		x.refusePick(picked)
	case last.result.Cause == CauseStatus:
		x.deliverHeld(last)
	case x.refused != nil && x.refused.passable():
		x.deliverHeld(x.refused)
	case last.result.Cause == CauseAnswer:
		x.refuseAnswer(last)
	default:
		x.refuseTry(last.result.Cause)
	}
}

// try dispatches the call and waits for the first byte of the answer: engines
// send the header at once and the first token much later, and until a byte
// went to the client another replica can still take over (I2).
func (x *exchange) try(target *Target) *try {
	t := x.newTry(target, false)
	if x.call.Attempt == 0 && x.cfg.Overhead != nil {
		x.cfg.Overhead(t.start.Sub(x.read) - x.waited)
	}
	if patience, may := x.patience(t); may {
		return x.race(t, patience)
	}
	x.run(t)
	return t
}

// run makes a try up to the first byte of its answer.
func (x *exchange) run(t *try) {
	wait := x.limits.Answer
	if x.call.Body.Stream {
		wait = x.limits.FirstByte
	}
	late := errFirstByte
	if left := x.remaining(); left < wait {
		wait, late = left, ErrDeadline
	}
	timer := time.AfterFunc(wait, func() { t.cancel(late) })
	x.watch(t)
	t.waits()
	err := x.send(t.ctx, t)
	if err == nil {
		err = x.await(t)
	}
	t.got()
	if !timer.Stop() && err == nil {
		err = late
	}
	if err != nil {
		x.fail(t, t.ctx, err)
		return
	}
	if x.cfg.Hedge.on() && x.call.Body.Stream {
		x.firstBytes.add(time.Since(t.start), x.cfg.Hedge.Percentile)
	}
}

// fail notes why a try has no answer.
func (x *exchange) fail(t *try, ctx context.Context, err error) {
	t.result.Err = err
	var op *net.OpError
	switch {
	case errors.Is(context.Cause(ctx), errFirstByte):
		t.result.Cause, t.result.Err = CauseTimeout, errFirstByte
	case errors.Is(context.Cause(ctx), ErrDeadline):
		t.result.Cause, t.result.Err = CauseTimeout, ErrDeadline
	case errors.Is(context.Cause(ctx), ErrDown):
		t.result.Cause, t.result.Err = CauseReset, ErrDown
	case errors.As(err, &op) && op.Op == "dial":
		t.result.Cause = CauseConnect
	default:
		t.result.Cause = CauseReset
	}
	t.result.ClientGone = x.r.Context().Err() != nil
}

// send makes the request and gets the header of the answer.
func (x *exchange) send(ctx context.Context, t *try) error {
	req, err := x.request(ctx, t)
	if err != nil {
		return err
	}
	if x.cfg.Attempt != nil {
		t.res, err = x.cfg.Attempt(x.call, t.target, req) //nolint:bodyclose // finish closes it
	} else {
		t.res, err = x.cfg.Transport.RoundTrip(req) //nolint:bodyclose // finish closes it
	}
	return err
}

// ranked are the APIs whose bodies have a priority at vLLM and SGLang.
var ranked = map[openai.Endpoint]bool{openai.Chat: true, openai.Completions: true, openai.Responses: true}

func (x *exchange) request(ctx context.Context, t *try) (*http.Request, error) {
	body := x.call.Body
	if x.call.Endpoint == openai.Responses && x.cfg.ResponseID != nil {
		if id := x.cfg.ResponseID(x.call, t.target); id != "" {
			body = body.Clone()
			body.Set("request_id", []byte(`"`+id+`"`))
		}
	}
	if !t.target.NoUsage && body.Stream && !body.IncludeUsage {
		body = body.Clone()
		t.asked = body.AskUsage()
	}
	if t.tokens = x.wantsTokens(t.target); t.tokens {
		body = body.Clone()
		body.Set("return_token_ids", []byte("true"))
	}
	if t.target.Priority != 0 && ranked[body.Endpoint] {
		rank := x.rank(t)
		if t.target.Priority > 0 {
			rank = -rank
		}
		body = body.Clone()
		body.Set("priority", strconv.AppendInt(nil, int64(rank), 10))
	}
	if t.target.Source != "" {
		body = body.Clone()
		body.Set("kv_transfer_params", kvSource(x.call, t.target.Source))
	}
	path := (&url.URL{Path: x.call.Path}).EscapedPath() // some endpoints have several
	raw := body.Bytes()
	req, err := http.NewRequestWithContext(ctx, x.r.Method, strings.TrimSuffix(t.target.URL, "/")+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = x.r.URL.RawQuery
	req.Header = x.outbound(t.target)
	if x.cfg.Tracer != nil {
		Inject(ctx, req.Header)
	}
	return req, nil
}

// await reads the first bytes of the answer's body, or all of one that is
// short and not streamed, or worth another try.
func (x *exchange) await(t *try) error {
	if t.res.StatusCode < http.StatusOK { // 101: nobody asked for it, and it is no answer
		return errProtocol
	}
	t.result.Status = t.res.StatusCode
	if x.worthAnother(t) {
		t.held, t.firstErr = io.ReadAll(io.LimitReader(t.res.Body, maxHeldBytes))
		t.result.Cause, t.result.Bytes = CauseStatus, int64(len(t.held))
		t.result.RetryAfter = retryAfter(t.res)
		return nil
	}
	t.buffer = x.buffers.Get().(*[bufferBytes]byte)
	n := 0
	for n == 0 && t.firstErr == nil {
		n, t.firstErr = t.res.Body.Read(t.buffer[:])
	}
	if whole := t.res.ContentLength; n > 0 && t.firstErr == nil && whole > int64(n) && whole <= bufferBytes && !x.call.Body.Stream {
		// Half of an answer is of no use: nothing goes out before all of it is
		// here, and if it breaks, another replica can still give one.
		m, err := io.ReadFull(t.res.Body, t.buffer[n:whole])
		if n += m; err != nil {
			return err
		}
	}
	t.first = t.buffer[:n]
	if n == 0 && !errors.Is(t.firstErr, io.EOF) {
		return t.firstErr
	}
	x.checkBegin(t)
	return nil
}

// worthAnother reports whether the status alone makes the try worth another one.
func (x *exchange) worthAnother(t *try) bool {
	if slices.Contains(x.cfg.RetryStatus, t.res.StatusCode) {
		return true
	}
	return t.res.StatusCode >= 400 && t.res.StatusCode < 500 && x.cfg.Doubts != nil && x.cfg.Doubts(t.target)
}

// checkBegin looks whether the first bytes are an answer of the endpoint. While
// they are all that came, another replica can still give one.
func (x *exchange) checkBegin(t *try) {
	if t.res.StatusCode != http.StatusOK || t.res.Header.Get("Content-Encoding") != "" || x.r.Method != http.MethodPost {
		return
	}
	whole := errors.Is(t.firstErr, io.EOF) || t.res.ContentLength == int64(len(t.first))
	if t.result.Wrong = x.call.Endpoint.Begins(t.first, whole); t.result.Wrong != openai.WrongNothing {
		t.result.Cause, t.result.Bytes = CauseAnswer, int64(len(t.first))
	}
}

// mostRetryAfter bounds how long one answer keeps a replica without requests.
const mostRetryAfter = 30 * time.Second

// retryAfter is what the header of that name says, bounded; 429 without it means
// a second.
func retryAfter(res *http.Response) time.Duration {
	var wait time.Duration
	if res.StatusCode == http.StatusTooManyRequests {
		wait = time.Second
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		if s, err := strconv.ParseFloat(res.Header.Get("Retry-After"), 64); err == nil && s >= 0 {
			wait = time.Duration(min(s, mostRetryAfter.Seconds()) * float64(time.Second))
		}
	}
	return wait
}

// finish ends a try: the replica's connection is free or cut, Done is told
// (I1).
func (x *exchange) finish(t *try) {
	t.cancel(nil)
	t.unwatch()
	if t.res != nil {
		_ = t.res.Body.Close()
	}
	if t.buffer != nil {
		x.buffers.Put(t.buffer)
		t.buffer, t.first = nil, nil
	}
	t.result.Duration = time.Since(t.start)
	t.endTry()
	if x.cfg.Done != nil {
		x.cfg.Done(t.target, t.result)
	}
}
