package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
)

// errLead ends a decode leg that waits for a prefill leg which failed.
var errLead = errors.New("the prefill replica failed")

// running are the prefill legs that may outlive their request's answer.
type running struct {
	wg sync.WaitGroup

	mu     sync.Mutex // guards below
	cancel map[*lead]context.CancelCauseFunc
}

func (r *running) begin(l *lead, cancel context.CancelCauseFunc, run func()) {
	r.mu.Lock()
	if r.cancel == nil {
		r.cancel = map[*lead]context.CancelCauseFunc{}
	}
	r.cancel[l] = cancel
	r.mu.Unlock()
	r.wg.Go(func() {
		defer func() {
			cancel(nil)
			r.mu.Lock()
			delete(r.cancel, l)
			r.mu.Unlock()
		}()
		run()
	})
}

// stop ends all of them and waits. No other may begin.
func (r *running) stop() {
	r.mu.Lock()
	for _, cancel := range r.cancel {
		cancel(context.Canceled)
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// headed is how a prefill leg began; err if it did not.
type headed struct {
	res *http.Response // set for a refusal, its body read
	err error
}

// both sends one body to both replicas at the same time; they meet in a room
// and the decode replica answers. A prefill leg that fails ends the decode leg
// at once, which would else wait for it. It outlives the normal end of the
// decode leg, and ends with the client otherwise.
func (p *pairs) both(call *proxy.Call, target *proxy.Target, t *ticket, req *http.Request) (*http.Response, error) {
	raw, err := bootstrap(outgoing(call, target), t.lead)
	if err != nil {
		return nil, err
	}
	decode, abort := context.WithCancelCause(req.Context())
	prefill, cancel := context.WithCancelCause(context.WithoutCancel(req.Context()))
	detach := context.AfterFunc(req.Context(), func() { cancel(context.Canceled) })
	first, err := p.leadRequest(t, prefill, req, raw)
	if err != nil {
		cancel(err)
		abort(err)
		return nil, err
	}
	t.lead.running = true
	body := &decodeBody{abort: abort, detach: detach, orphaned: func() bool {
		if !errors.Is(context.Cause(decode), errLead) {
			return false
		}
		t.lead.cut, target.Replica = true, t.lead.replica.Name() // it is the one not to try again
		return true
	}}
	head := make(chan headed, 1)
	p.running.begin(t.lead, cancel, func() { p.runLead(t, first, head, body) })

	res, err := p.decodeLeg(t, withBody(req.WithContext(decode), raw))
	if err != nil && !errors.Is(context.Cause(decode), errLead) {
		cancel(err) // nobody will fetch
		abort(err)
		return nil, err
	}
	var h headed
	select {
	case h = <-head:
	case <-req.Context().Done():
		h.err = req.Context().Err()
	}
	if err != nil && h.err == nil {
		h.err = errLead // it broke after it had begun
	}
	if h.err == nil && h.res == nil {
		body.ReadCloser = res.Body
		res.Body = body
		return res, nil
	}
	abort(errLead)
	if res != nil {
		_ = res.Body.Close()
	}
	target.Replica = t.lead.replica.Name() // it is the one not to try again
	if h.res != nil {
		return h.res, nil
	}
	t.lead.cut = true
	return nil, h.err
}

// bootstrap names the prefill replica and a room of this try's own.
func bootstrap(r *openai.Request, l *lead) ([]byte, error) {
	spec := &l.replica.Spec
	u, err := url.Parse(spec.URL)
	if err != nil {
		return nil, err
	}
	port := disagg.BootstrapPort
	if n, err := strconv.Atoi(spec.Labels["bootstrap_port"]); err == nil {
		port = n
	}
	room, err := disagg.Room(nil)
	if err != nil {
		return nil, err
	}
	if l.replica.OneOfMany() { // the decode server must look for the keys at the rank that computes them
		room = disagg.RoomOfRank(room, spec.Rank, max(spec.Ranks, l.replica.Facts().Ranks))
		r = r.Clone()
		r.Set("disagg_prefill_dp_rank", strconv.AppendInt(nil, int64(spec.Rank), 10))
	}
	return disagg.SGLangBoth(r, u.Hostname(), port, room), nil
}

// runLead sends the prefill leg, tells how it began and reads it to its end.
func (p *pairs) runLead(t *ticket, first *http.Request, head chan<- headed, body *decodeBody) {
	timer := time.AfterFunc(p.rules.config().Routing.Disagg.Timeout, func() { p.cancelLead(t.lead, errPrefillTimeout) })
	defer timer.Stop()
	fail := func(err error) {
		how := legFailed
		switch cause := context.Cause(first.Context()); {
		case errors.Is(cause, errPrefillTimeout):
			how, err = legTimeout, errPrefillTimeout
		case cause != nil:
			how = legLeft
		}
		p.endLead(t, how, openai.Usage{}, time.Now())
		if !body.flowing.Load() {
			body.abort(errLead)
		}
		head <- headed{err: err}
	}
	first, span := p.traceLeg(first, "prefill leg", t.lead.replica.Name())
	res, err := p.transport.RoundTrip(first)
	defer func() { span.end(res, err) }()
	if err != nil {
		fail(err)
		return
	}
	defer res.Body.Close()
	refused := res.StatusCode >= 400 && res.StatusCode <= 451
	if res.StatusCode != http.StatusOK && !refused {
		fail(fmt.Errorf("the prefill replica answered with status %d", res.StatusCode))
		return
	}
	if !refused {
		head <- headed{}
		head = make(chan headed, 1) // a later failure is told by abort
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, disagg.MaxAnswerBytes))
	switch {
	case err != nil:
		fail(err)
	case refused:
		p.endLead(t, legRefused, openai.Usage{}, time.Now())
		res.Body = io.NopCloser(bytes.NewReader(raw))
		body.abort(errLead)
		head <- headed{res: res}
	default:
		p.endLead(t, legAnswered, disagg.UsageOf(res.Header.Get("Content-Type"), raw), time.Now())
	}
}

// cancelLead ends one running prefill leg.
func (p *pairs) cancelLead(l *lead, why error) {
	p.running.mu.Lock()
	cancel := p.running.cancel[l]
	p.running.mu.Unlock()
	if cancel != nil {
		cancel(why)
	}
}

// decodeBody is the decode leg's answer. At its normal end the prefill leg is
// let go; before its first byte a failed prefill leg ends it.
type decodeBody struct {
	io.ReadCloser
	abort   context.CancelCauseFunc
	detach  func() bool
	flowing atomic.Bool
	// orphaned reports whether the prefill leg's failure ended this one, and
	// lays the blame there. Called by the reader.
	orphaned func() bool
}

func (b *decodeBody) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	if n > 0 {
		b.flowing.Store(true)
	}
	switch {
	case err == io.EOF:
		b.detach()
	case err != nil && b.orphaned():
		err = errLead
	}
	return n, err
}

func (b *decodeBody) Close() error {
	err := b.ReadCloser.Close()
	b.abort(nil)
	return err
}
