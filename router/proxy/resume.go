package proxy

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

// Resumption is what became of a stream whose replica was lost after text had
// gone to the client; a closed list, used as a metric label.
type Resumption string

// The outcomes. Those after the first say why the client saw the stream break off.
const (
	ResumeDone     Resumption = "continued"
	ResumeEndpoint Resumption = "endpoint"   // neither chat nor completions
	ResumeChoices  Resumption = "choices"    // several prompts or choices
	ResumeTools    Resumption = "tools"      // only the engine can tell a call from text
	ResumeImages   Resumption = "images"     // tokens do not say what is on them
	ResumeField    Resumption = "field"      // a field of the request is in the way, as stop or logprobs
	ResumeThoughts Resumption = "reasoning"  // it was still thinking
	ResumeTokens   Resumption = "tokens"     // the replica told no token ids
	ResumeMemory   Resumption = "memory"     // there was no memory to keep them
	ResumeLength   Resumption = "length"     // the context is full or its length not known, or the rest is more than a body may be
	ResumeBudget   Resumption = "budget"     // of retries
	ResumeNobody   Resumption = "no_replica" // could go on, or went on to the end
)

// Resumptions lists all of them.
var Resumptions = []Resumption{
	ResumeDone, ResumeEndpoint, ResumeChoices, ResumeTools, ResumeImages, ResumeField, ResumeThoughts, ResumeTokens, ResumeMemory,
	ResumeLength, ResumeBudget, ResumeNobody,
}

// errGaveUp ends a try whose replica said in the stream that it will not finish.
const errGaveUp = plainError("the replica gave the answer up")

// unfinished is a streamed answer as far as the client has it: what another
// replica needs to go on if this one is lost. The tokens are the engine's own;
// those whose text has not come are left out and will be generated again.
type unfinished struct {
	asked              *openai.Request // what the client sent
	id, created, model []byte          // of the chunks, raw
	prompt, output     []uint32
	late               []uint32 // tokens since the last text
	length             int      // tokens of the prompt
	before             int      // tokens that earlier replicas generated
	held               int64    // bytes taken of bodies
	most               int      // tokens that another replica could be sent
	why                Resumption
	thinking           bool // the last that came was no text
	ended              bool // its finish reason has gone out
	done               bool // and the end of the stream
	gaveUp             bool // by the replica: nothing that follows counts
}

// unfinish begins to keep what it takes to continue the answer, if that is on.
func (x *exchange) unfinish() {
	if x.limits.Continue && x.call.Body.Stream {
		x.rest = &unfinished{asked: x.call.Body, why: Resumption(x.call.Body.Continuable())}
		// An id takes two bytes of a body at least.
		x.rest.most = int(min(int64(x.contextOf(x.call.Body.Model)), x.limits.BodyBytes/2))
	}
}

// wantsTokens reports whether a try should ask its replica for token ids.
func (x *exchange) wantsTokens(t *Target) bool { return x.rest != nil && x.rest.why == "" && t.Tokens }

// keep passes one event on as the client would have read it from one replica
// that was not asked for tokens, and notes what it adds.
func (s *sink) keep(e openai.Event) {
	u := s.x.rest
	if u.gaveUp {
		return
	}
	p := openai.ReadPiece(e.Data)
	if u.why == "" && abandons(&p) {
		u.gaveUp = true
		return
	}
	chunk := s.note(e)
	s.x.remember(&p)
	u.done = u.done || chunk.Done
	switch {
	case s.t.resumes:
		s.body = u.appendRest(s.body, e, &p, &chunk)
	case chunk.OnlyUsage && s.t.asked:
	case s.t.tokens && p.Empty && p.Finish == nil: // it has nothing but tokens
	default:
		s.body = openai.AppendWithoutTokens(s.body, e, !s.t.asked)
	}
}

// abandons reports whether a chunk says that the engine will not finish: vLLM
// ends its answers with "abort" when it is stopped, and with an error of 500 when
// its core is gone.
func abandons(p *openai.Piece) bool {
	code, _ := strconv.Atoi(string(p.Code))
	return string(p.Finish) == `"abort"` || code >= http.StatusInternalServerError
}

// stopped reports whether an answer has begun and its end has not come.
func (u *unfinished) stopped() bool { return u.why == "" && len(u.prompt) > 0 && !u.done }

// remember notes what a chunk adds to the answer.
func (x *exchange) remember(p *openai.Piece) {
	u := x.rest
	if u.why != "" {
		return
	}
	if u.id == nil && p.ID != nil {
		u.id, u.created, u.model = clone(p.ID), clone(p.Created), clone(p.Model)
	}
	if p.Prompt != nil && len(u.prompt) == 0 {
		u.prompt, _ = openai.AppendIDs(u.prompt, p.Prompt)
		u.length = len(u.prompt)
	}
	u.late, _ = openai.AppendIDs(u.late, p.Tokens)
	shown := len(p.Text) > len(`""`)
	if shown || p.Other {
		if len(p.Tokens) == 0 || len(u.prompt) == 0 {
			x.forget(ResumeTokens)
			return
		}
		u.thinking = p.Other
		u.output, u.late = append(u.output, u.late...), u.late[:0]
	}
	u.ended = u.ended || p.Finish != nil
	if len(u.prompt)+len(u.output)+len(u.late) > u.most {
		x.forget(ResumeLength)
		return
	}
	const idBytes = 4
	if size := int64(idBytes * (cap(u.prompt) + cap(u.output) + cap(u.late))); size > u.held {
		if !x.bodies.take(size - u.held) {
			x.forget(ResumeMemory)
			return
		}
		u.held = size
	}
}

func clone(raw []byte) []byte { return append([]byte(nil), raw...) }

// forget gives up what was kept: the answer cannot be continued any more.
func (x *exchange) forget(why Resumption) {
	u := x.rest
	x.bodies.put(u.held)
	u.held, u.why = 0, why
	u.prompt, u.output, u.late = nil, nil, nil
}

// appendRest writes a chunk of a replica that goes on as one of the answer that
// the client is reading.
func (u *unfinished) appendRest(dst []byte, e openai.Event, p *openai.Piece, chunk *openai.Chunk) []byte {
	switch {
	case chunk.OnlyUsage:
		return u.appendUsage(dst, u.before+chunk.Usage.Completion, p.Fingerprint)
	case p.Text == nil && p.Finish == nil:
		return append(dst, e.Raw...) // a comment, an error, the end
	case len(p.Text) <= len(`""`) && p.Finish == nil:
		return dst
	}
	text := orNull(p.Text)
	if p.Text == nil {
		text = []byte(`""`)
	}
	if u.asked.Endpoint == openai.Chat {
		dst = append(append(append(u.appendHead(dst), `{"index":0,"delta":{"content":`...), text...), '}')
	} else {
		dst = append(append(u.appendHead(dst), `{"index":0,"text":`...), text...)
	}
	dst = append(append(dst, `,"logprobs":null,"finish_reason":`...), orNull(p.Finish)...)
	return append(append(append(dst, `,"stop_reason":`...), orNull(p.Stop)...), "}]}\n\n"...)
}

// appendHead begins a chunk as the client's first one began, up to its choices.
func (u *unfinished) appendHead(dst []byte) []byte {
	object := "text_completion"
	if u.asked.Endpoint == openai.Chat {
		object = "chat.completion.chunk"
	}
	dst = append(append(dst, `data: {"id":`...), orNull(u.id)...)
	dst = append(append(append(dst, `,"object":"`...), object...), `","created":`...)
	dst = append(append(append(dst, orNull(u.created)...), `,"model":`...), orNull(u.model)...)
	return append(dst, `,"choices":[`...)
}

// appendUsage writes the usage of the whole answer, if the client asked for it,
// and what the engine signs its last chunk with, nil if nothing.
func (u *unfinished) appendUsage(dst []byte, output int, fingerprint []byte) []byte {
	if !u.asked.IncludeUsage {
		return dst
	}
	dst = append(u.appendHead(dst), `],"usage":{"prompt_tokens":`...)
	dst = append(strconv.AppendInt(dst, int64(u.length), 10), `,"total_tokens":`...)
	dst = append(strconv.AppendInt(dst, int64(u.length+output), 10), `,"completion_tokens":`...)
	dst = append(strconv.AppendInt(dst, int64(output), 10), '}')
	if fingerprint != nil {
		dst = append(append(dst, `,"system_fingerprint":`...), fingerprint...)
	}
	return append(dst, "}\n\n"...)
}

// appendEnd ends an answer whose last token had come when its replica was lost.
func (u *unfinished) appendEnd(dst []byte) []byte {
	return append(u.appendUsage(dst, len(u.output)+len(u.late), nil), "data: [DONE]\n\n"...)
}

func orNull(raw []byte) []byte {
	if raw == nil {
		return []byte("null")
	}
	return raw
}

// hopeless says why nobody could go on with the answer now; "": somebody may.
func (u *unfinished) hopeless() Resumption {
	switch {
	case u.why == "" && u.thinking:
		return ResumeThoughts
	case u.why == "" && len(u.prompt) == 0:
		return ResumeTokens
	}
	return u.why
}

// mayResume reports whether another replica is to go on with an answer whose
// replica was lost.
func (x *exchange) mayResume(t *try) bool {
	u := x.rest
	switch {
	case u == nil || u.ended || t.result.ClientGone || x.r.Context().Err() != nil:
		return false
	}
	if u.why = u.hopeless(); u.why != "" {
		return false
	}
	length := x.contextOf(u.asked.Model)
	const idText = 8 // bytes of an id in a body, about
	if !x.hold(x.held/bodyCopies + idText*int64(len(u.prompt)+len(u.output))) {
		u.why = ResumeMemory
		return false
	}
	body, ok := u.asked.Continuation(u.prompt, u.output, length)
	if !ok || length == math.MaxInt32 && u.asked.MaxTokens == 0 {
		u.why = ResumeLength
		return false
	}
	if int64(len(body.Bytes())) > x.limits.BodyBytes {
		u.why = ResumeLength
		return false
	}
	// The rest is a request of its own: only the time and the tries before count.
	next := *x.call
	next.Body, next.Endpoint, next.Path = body, openai.Completions, openai.Completions.Path()
	next.Memo, next.Lost, next.Start = nil, x.call.Memo, time.Now()
	x.racers.Wait() // the slower try of a hedge was cancelled, and may still read the call
	now := x.call
	x.call = &next
	if !x.mayRetry(t) {
		x.call, u.why = now, ResumeBudget
		return false
	}
	u.before, u.late, u.gaveUp = len(u.output), u.late[:0], false
	x.turn.ask.Deadline = time.Time{}
	return true
}

// contextOf is how many tokens fit into a model's context, the smallest that a
// replica tells; math.MaxInt32: not known. Engines tell it of base models alone; an
// adapter has its parent's.
func (x *exchange) contextOf(model string) int {
	if x.cfg.Models == nil {
		return math.MaxInt32
	}
	models := x.cfg.Models()
	find := func(id string) int { return slices.IndexFunc(models, func(m Model) bool { return m.ID == id }) }
	at := find(model)
	if at >= 0 && models[at].MaxModelLen == 0 && models[at].Parent != "" {
		at = find(models[at].Parent)
	}
	if at < 0 || models[at].MaxModelLen == 0 {
		return math.MaxInt32
	}
	return models[at].MaxModelLen
}

// goOn turns to the replica that goes on; false: it does not.
func (s *sink) goOn(t *try) bool {
	s.t, s.scanner = t, openai.Scanner{Limit: s.scanner.Limit}
	return t.res.StatusCode == http.StatusOK && t.res.Header.Get("Content-Encoding") == "" &&
		strings.HasPrefix(t.res.Header.Get("Content-Type"), "text/event-stream")
}

// tellResumed tells once what became of a stream whose replica was lost.
func (x *exchange) tellResumed(how Resumption) {
	if x.cfg.Resumed != nil {
		x.cfg.Resumed(how)
	}
}

// breakOff ends a stream that nobody went on with: the client must see that it
// is not whole.
func (x *exchange) breakOff() {
	if x.r.Context().Err() != nil {
		x.left()
		return
	}
	if x.cfg.Refused != nil {
		x.cfg.Refused(http.StatusOK) // Done was told that another try follows
	}
	x.tellResumed(ResumeNobody)
	x.out.put(appendCut(nil, x.out.endpoint, x.out.next))
	x.end.Cut = true
	panic(http.ErrAbortHandler)
}
