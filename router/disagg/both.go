package disagg

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

// errPrefill ends a decode leg that waits for a prefill leg which failed.
const errPrefill = plainError("the prefill replica failed")

// headed is how a prefill leg began; err if it did not.
type headed struct {
	res *http.Response // set for a refusal, its body read
	err error
}

// meeting is a try whose two legs go out at the same time.
type meeting struct {
	legs   *Legs
	try    *Try
	first  *http.Request // the prefill leg
	cancel context.CancelCauseFunc
	answer *decodeBody
	head   chan headed // one word
}

// atOnce sends one body to both replicas at the same time; they meet in a room
// and the decode replica answers. A prefill leg that fails ends the decode leg
// at once, which would else wait for it (I6). It outlives the normal end of the
// decode leg, and ends with the client otherwise (I7).
func (l *Legs) atOnce(t *Try) (*http.Response, error) {
	raw, err := bootstrap(t.Body, &t.Prefill)
	if err != nil {
		t.Book.Ended(Failed, openai.Usage{}, time.Now())
		return nil, err
	}
	ctx := t.Request.Context()
	decode, abort := context.WithCancelCause(ctx)
	prefill, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, func() { cancel(context.Canceled) })
	first, err := t.prefillRequest(prefill, raw)
	if err != nil {
		cancel(err)
		abort(err)
		t.Book.Ended(Failed, openai.Usage{}, time.Now())
		return nil, err
	}
	m := &meeting{
		legs: l, try: t, first: first, cancel: cancel, head: make(chan headed, 1),
		answer: &decodeBody{book: t.Book, cause: func() error { return context.Cause(decode) }, abort: abort, detach: detach},
	}
	l.running.begin(t, cancel, m.prefill)
	res, err := l.decodeLeg(t, withBody(t.Request.WithContext(decode), raw))
	if err != nil && !errors.Is(context.Cause(decode), errPrefill) {
		cancel(err) // nobody will fetch
		abort(err)
		return nil, err
	}
	return m.answered(res, err)
}

// answered waits for the word on how the prefill leg began, and returns what
// the client is answered with.
func (m *meeting) answered(res *http.Response, err error) (*http.Response, error) {
	var h headed
	select {
	case h = <-m.head:
	case <-m.try.Request.Context().Done():
		h.err = m.try.Request.Context().Err()
	}
	if err != nil && h.err == nil {
		h.err = errPrefill // it broke after it had begun
	}
	if h.err == nil && h.res == nil {
		m.answer.ReadCloser = res.Body
		res.Body = m.answer
		return res, nil
	}
	m.answer.abort(errPrefill)
	if res != nil {
		_ = res.Body.Close()
	}
	m.try.Book.AtPrefill()
	if h.res != nil {
		return h.res, nil
	}
	m.try.Book.PrefillBroke()
	return nil, h.err
}

// prefill sends the prefill leg, tells how it began and reads it to its end.
func (m *meeting) prefill() {
	timer := time.AfterFunc(m.legs.Timeout(), func() { m.cancel(errTimeout) })
	defer timer.Stop()
	first, end := m.legs.trace(m.first, prefillLeg, m.try.Prefill.Name)
	res, err := m.legs.Transport.RoundTrip(first)
	defer func() { end(statusOf(res), err) }()
	if err != nil {
		m.failed(err)
		return
	}
	defer res.Body.Close()
	refused := refusal(res.StatusCode)
	if res.StatusCode != http.StatusOK && !refused {
		m.failed(statusError(res.StatusCode))
		return
	}
	if !refused {
		m.say(headed{})
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	switch {
	case err != nil:
		m.failed(err)
	case refused:
		m.try.Book.Ended(Refused, openai.Usage{}, time.Now())
		res.Body = io.NopCloser(bytes.NewReader(raw))
		m.answer.abort(errPrefill)
		m.say(headed{res: res})
	default:
		m.try.Book.Ended(Answered, usageOf(res.Header.Get("Content-Type"), raw), time.Now())
	}
}

// failed ends a try whose prefill leg failed, unless its answer flows already.
func (m *meeting) failed(err error) {
	how := Failed
	switch cause := context.Cause(m.first.Context()); {
	case errors.Is(cause, errTimeout):
		how, err = Timeout, errTimeout
	case cause != nil:
		how = Left
	}
	m.try.Book.Ended(how, openai.Usage{}, time.Now())
	if !m.answer.flowing.Load() {
		m.answer.abort(errPrefill)
	}
	m.say(headed{err: err})
}

// say tells how the prefill leg began; a later failure is told by abort.
func (m *meeting) say(h headed) {
	select {
	case m.head <- h:
	default:
	}
}

// bootstrap names the prefill replica and a room of this try's own.
func bootstrap(r *openai.Request, prefill *Server) ([]byte, error) {
	u, err := url.Parse(prefill.URL)
	if err != nil {
		return nil, err
	}
	port := bootstrapPort
	if n, err := strconv.Atoi(prefill.Labels["bootstrap_port"]); err == nil {
		port = n
	}
	room, err := drawRoom(nil)
	if err != nil {
		return nil, err
	}
	if prefill.Ranked { // the decode server must look for the keys at the rank that computes them
		room = roomOfRank(room, prefill.Rank, prefill.Ranks)
		r = r.Clone()
		r.Set("disagg_prefill_dp_rank", strconv.AppendInt(nil, int64(prefill.Rank), 10))
	}
	return sglangBoth(r, u.Hostname(), port, room), nil
}

// decodeBody is the decode leg's answer. At its normal end the prefill leg is
// let go; before its first byte a failed prefill leg ends it.
type decodeBody struct {
	io.ReadCloser
	book    Book
	cause   func() error // what ended the leg
	abort   context.CancelCauseFunc
	detach  func() bool
	flowing atomic.Bool
}

// Read lays the blame for an answer that the prefill leg's failure ended there.
func (b *decodeBody) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	if n > 0 {
		b.flowing.Store(true)
	}
	switch {
	case err == io.EOF:
		b.detach()
	case err != nil && errors.Is(b.cause(), errPrefill):
		b.book.PrefillBroke()
		b.book.AtPrefill() // it is the one not to try again
		err = errPrefill
	}
	return n, err
}

func (b *decodeBody) Close() error {
	err := b.ReadCloser.Close()
	b.abort(nil)
	return err
}
