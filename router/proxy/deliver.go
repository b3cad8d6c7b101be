package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

const (
	maxHeldBytes  = 64 << 10 // of an error answer kept over a retry
	maxUsageBytes = 1 << 20  // of a whole answer kept to find its usage
)

// errIdle ends an answer that began and stands still, errUnfinished one whose
// stream ended before it.
var (
	errIdle       = plainError("the answer stands still")
	errUnfinished = plainError("the stream ended before the answer did")
)

// deliver passes an answer on, from its first bytes to its end. It returns false
// if its replica was lost, or would not go on with a stream: t.result.Retried says
// whether another one is to.
func (x *exchange) deliver(t *try) (over bool) {
	if x.out == nil {
		if x.unfit(t) {
			return true
		}
		x.out = x.newSink(t)
		x.out.begin()
	} else if !x.out.goOn(t) {
		x.finish(t)
		return false
	}
	t.result.Answered = true
	cut := x.relay(x.out)
	if cut && x.mayResume(t) {
		t.result.Retried, t.result.Answered = true, false
		x.finish(t)
		return false
	}
	whole := !cut || x.rest != nil && x.rest.ended && !t.result.ClientGone
	if t.result.ClientGone {
		x.left()
	}
	switch {
	case whole && t.resumes, whole && cut:
		x.tellResumed(ResumeDone)
	case x.rest != nil && x.rest.why != "" && cut && !t.result.ClientGone:
		x.tellResumed(x.rest.why)
	}
	x.out.end(cut, whole)
	x.finish(t)
	x.end.Cut = !whole && !t.result.ClientGone
	if !whole {
		// The client must see that the answer is not whole, and what came of it.
		_ = x.rc.Flush()
		panic(http.ErrAbortHandler)
	}
	return true
}

// unfit answers for a replica whose answer no client is given.
func (x *exchange) unfit(t *try) bool {
	if t.res.StatusCode >= 500 && !isJSON(t.res.Header.Get("Content-Type")) {
		x.finish(t)
		x.refuseStatus(t)
		return true
	}
	if redirects(t.res.StatusCode) { // clients are sent nowhere, and it is no answer
		x.finish(t)
		x.w.Header().Set("X-Banyan-Replica", t.target.Replica)
		x.refuse(refusal(http.StatusBadGateway, "replica_failed", "the replica answered with a redirect ("+strconv.Itoa(t.res.StatusCode)+")"))
		return true
	}
	return false
}

// redirects reports whether a status asks the client to go elsewhere.
func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// passable reports whether the answer of a failed try is a whole one of the
// API, that a client can be given if no other replica answers. A refusal (4xx)
// passes as it is.
func (t *try) passable() bool {
	return t.result.Cause == CauseStatus && t.firstErr == nil && len(t.held) < maxHeldBytes &&
		(t.res.StatusCode < 500 || isJSON(t.res.Header.Get("Content-Type")))
}

// deliverHeld passes on the error answer of the last try.
func (x *exchange) deliverHeld(t *try) {
	if !t.passable() {
		x.refuseStatus(t)
		return
	}
	if !t.result.Answered && x.cfg.Refused != nil {
		x.cfg.Refused(t.res.StatusCode) // Done was told that another try follows
	}
	x.inbound(t.res.Header, t.target)
	x.w.Header().Set("Content-Length", strconv.Itoa(len(t.held)))
	x.answer(t.res.StatusCode)
	x.w.WriteHeader(t.res.StatusCode)
	_, _ = x.w.Write(t.held)
}

// refuseStatus answers with the replica's status where its body is no API's,
// such as a page of a load balancer.
func (x *exchange) refuseStatus(t *try) {
	status := t.res.StatusCode
	x.w.Header().Set("X-Banyan-Replica", t.target.Replica)
	x.refuse(refusal(status, "replica_failed", "the replica answered with status "+strconv.Itoa(status)))
}

// relay streams the body to the client and reports whether it was cut short by
// the replica.
func (x *exchange) relay(s *sink) (cut bool) {
	t := s.t
	idle := time.AfterFunc(x.limits.Idle, func() { t.cancel(errIdle) })
	idle.Stop() // it runs only while the replica is waited for, not the client
	data, err := t.first, t.firstErr
	for {
		if len(data) > 0 {
			t.result.Bytes += int64(len(data))
			if !s.write(data) {
				t.result.ClientGone, t.result.Err = true, context.Canceled
				return true
			}
		}
		if s.kept && x.rest.gaveUp {
			err = errGaveUp
		}
		if err != nil {
			break
		}
		idle.Reset(x.limits.Idle)
		t.stuck.Store(!s.kept || x.rest.hopeless() != "")
		t.waits()
		var n int
		n, err = t.res.Body.Read(t.buffer[:])
		t.got()
		idle.Stop()
		data = t.buffer[:n]
	}
	if t.resumes {
		t.result.Before = x.rest.before
	}
	if err == io.EOF && (s.kept && x.rest.stopped() || s.unfinished()) {
		err, t.result.Wrong = errUnfinished, openai.WrongUnfinished
	}
	if err == io.EOF {
		return false
	}
	t.result.Err, t.result.Cause = err, CauseReset
	switch why := context.Cause(t.ctx); {
	case errors.Is(why, errIdle):
		t.result.Err, t.result.Cause = errIdle, CauseTimeout
	case errors.Is(why, ErrDown):
		t.result.Err = ErrDown
	}
	if t.result.ClientGone = x.r.Context().Err() != nil; t.result.ClientGone {
		t.result.Err, t.result.Cause = x.r.Context().Err(), CauseNone
	}
	return true
}

// sink is the client's end of one answer, and what is learned on the way.
type sink struct {
	x *exchange
	t *try

	events  bool // server-sent events, to be read
	filter  bool // and written without the usage nobody asked for
	kept    bool // and another replica can go on with it: see unfinished
	capture bool // a whole JSON answer, kept to find its usage
	flush   bool // every read goes out at once

	ended    bool            // the stream said so
	endpoint openai.Endpoint // the client's
	next     int             // sequence_number of an event that would follow
	scanner  openai.Scanner
	body     []byte // captured, or scratch of filter
	deadline time.Time
}

func (x *exchange) newSink(t *try) *sink {
	s := &sink{x: x, t: t, endpoint: x.call.Endpoint}
	header := t.res.Header
	contentType, plain := header.Get("Content-Type"), header.Get("Content-Encoding") == ""
	s.events = plain && strings.HasPrefix(contentType, "text/event-stream")
	s.kept = s.events && x.rest != nil && x.rest.why == "" && t.res.StatusCode == http.StatusOK
	if s.kept {
		s.scanner.Limit = openai.MaxEvent + 2*x.size // the first one holds the prompt's token ids
	}
	s.filter = s.events && t.asked && !s.kept
	s.capture = plain && !s.events && x.call.Endpoint != openai.Other && t.res.StatusCode == http.StatusOK &&
		t.res.ContentLength <= maxUsageBytes && isJSON(contentType)
	s.flush = s.events || t.res.ContentLength < 0
	return s
}

// begin sends the header.
func (s *sink) begin() {
	s.x.inbound(s.t.res.Header, s.t.target)
	if s.filter || s.kept {
		s.x.w.Header().Del("Content-Length")
	}
	s.extend(s.t.start)
	s.x.answer(s.t.res.StatusCode)
	s.x.w.WriteHeader(s.t.res.StatusCode)
}

// extend moves the client's deadline, seldom: the client may be slow but not
// stand still. The server clears it before the next request.
func (s *sink) extend(now time.Time) {
	most := s.x.limits.Write
	if s.deadline.Sub(now) < most*3/4 {
		s.deadline = now.Add(most)
		_ = s.x.rc.SetWriteDeadline(s.deadline)
	}
}

// write passes bytes of the body on and looks at them; false if the client is
// gone. What is not filtered goes out before it is looked at.
func (s *sink) write(data []byte) bool {
	s.extend(time.Now())
	switch {
	case s.kept:
		s.body = s.body[:0]
		s.scanner.Feed(data, s.keep)
		return s.put(s.body)
	case s.filter:
		s.body = s.body[:0]
		s.scanner.Feed(data, s.sift)
		return s.put(s.body)
	case s.events:
		ok := s.put(data)
		s.scanner.Feed(data, func(e openai.Event) { s.note(e) })
		return ok
	case s.capture:
		if len(s.body)+len(data) <= maxUsageBytes {
			s.body = append(s.body, data...)
		} else {
			s.capture, s.body = false, nil
		}
	}
	return s.put(data)
}

func (s *sink) put(data []byte) bool {
	if len(data) == 0 {
		return true
	}
	if _, err := s.x.w.Write(data); err != nil {
		return false
	}
	if s.flush {
		return s.x.rc.Flush() == nil
	}
	return true
}

// note reads one event for what the router learns from it.
func (s *sink) note(e openai.Event) openai.Chunk {
	if e.Data == nil {
		return openai.Chunk{}
	}
	chunk := openai.ParseChunk(e.Data)
	result := &s.t.result
	if chunk.Token && result.TTFT == 0 {
		now := time.Now()
		result.TTFT = now.Sub(s.t.start)
		s.t.span.AddEvent("first_token")
		if s.x.cfg.FirstToken != nil {
			s.x.cfg.FirstToken(s.t.target, now)
		}
	}
	if chunk.Usage.Known {
		result.Usage = result.Usage.Then(chunk.Usage)
	}
	s.ended = s.ended || chunk.Done || chunk.Finish != "" || chunk.Failed
	if chunk.Done && result.TTFT == 0 && result.Finish == "" && !result.Failed && s.endpoint.Ends() && !s.t.resumes {
		result.Wrong = openai.WrongNoToken
	}
	if wrong := e.Wrong(); wrong != openai.WrongNothing {
		result.Wrong = wrong
	}
	result.Failed = result.Failed || chunk.Failed
	s.next = max(s.next, chunk.Next)
	if chunk.Finish != "" {
		result.Finish = chunk.Finish
	}
	return chunk
}

// unfinished reports whether a stream that is over lacks its end. Nobody knows
// what stood in an event that was too long to be read.
func (s *sink) unfinished() bool {
	return s.events && !s.ended && s.endpoint.Ends() && s.t.res.StatusCode == http.StatusOK && s.scanner.Oversize == 0 && !s.scanner.EndsUnclosed()
}

// sift keeps what the client would have read without asking for usage.
func (s *sink) sift(e openai.Event) {
	switch chunk := s.note(e); {
	case chunk.OnlyUsage:
	case chunk.HasUsage:
		s.body = openai.AppendWithoutUsage(s.body, e)
	default:
		s.body = append(s.body, e.Raw...)
	}
}

// appendCut ends a stream that the replica did not end, in words that clients of
// the endpoint read.
func appendCut(dst []byte, endpoint openai.Endpoint, next int) []byte {
	if endpoint.Anthropic() || endpoint == openai.Responses {
		dst = append(dst, "event: error\n"...)
	}
	fail := refusal(http.StatusBadGateway, "replica_failed", "the connection to the replica was lost")
	body := fail.BodyFor(endpoint)
	if endpoint == openai.Responses {
		body = []byte(`{"type":"error","code":"` + fail.Code + `","message":"` + fail.Message + `","param":null,"sequence_number":` + strconv.Itoa(next) + `}`)
	}
	return append(append(append(dst, "data: "...), bytes.TrimSpace(body)...), "\n\n"...)
}

// end writes what a filter holds back, says in words that a stream was cut if
// it stands between two events, and reads the usage of a whole answer.
func (s *sink) end(cut, whole bool) {
	switch {
	case s.events:
		idle := s.scanner.Idle() || s.kept
		s.body = s.body[:0]
		switch {
		case s.kept && cut: // what is held is a part of an event
			if whole {
				s.body = s.x.rest.appendEnd(s.body)
			}
		case s.kept:
			s.scanner.Flush(s.keep)
		case s.filter:
			s.scanner.Flush(s.sift)
		default:
			s.scanner.Flush(func(e openai.Event) { s.note(e) })
		}
		if !whole && idle && s.x.r.Context().Err() == nil {
			s.body = appendCut(s.body, s.endpoint, s.next)
		}
		s.put(s.body)
	case s.capture && whole:
		s.t.result.Usage = openai.ParseUsage(s.body)
		s.t.result.Wrong = s.endpoint.Whole(s.body)
	}
}
