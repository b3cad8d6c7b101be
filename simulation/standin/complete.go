package standin

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/banyan-llm/banyan/simulation/replica"
)

// answer is one HTTP request for completions on its way.
type answer struct {
	chat  bool
	exact bool // the client named the length
	ids   bool // wants token ids
	cut   bool // a fault: ends after the first token
	noise bool // a fault: comment lines between the chunks
	id    string
	model string
	made  int64 // seconds since 1970
	gens  []*generation

	context *disagg // what a context leg is answered with
}

// complete serves chat completions and completions.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	b, err := s.readBody(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	a, eng, ok := s.begin(w, r, b, chat)
	if !ok {
		return
	}
	defer a.release(eng)
	if b.Stream {
		s.stream(w, r, a, b.StreamOptions != nil && b.StreamOptions.IncludeUsage)
		return
	}
	for _, g := range a.gens {
		if !await(r.Context(), g, finished) || a.cut {
			panic(http.ErrAbortHandler)
		}
	}
	if s.cfg.Engine == TRTLLM && b.Disagg != nil && b.Disagg.Type == contextOnly {
		a.context = s.handContext(b, a)
	}
	s.whole(w, r, eng, a, s.handOver(b, a))
}

// begin carries out faults, renders the body and starts its generations;
// false if the request is answered already.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, b *body, chat bool) (*answer, *engine, bool) {
	v := s.faults.next()
	if !s.misbehave(w, r, v) {
		return nil, nil, false
	}
	gens, exact, err := s.generations(b, chat)
	if err != nil {
		s.failFor(w, r, err)
		return nil, nil, false
	}
	for _, g := range gens {
		g.everyToken = b.Stream || v.cut
	}
	s.fetch(r.Context(), b, gens)
	eng, err := s.rankOf(r)
	if err == nil {
		err = startAll(eng, gens)
	}
	if err != nil {
		s.refuse(w, err)
		return nil, nil, false
	}
	a := &answer{
		chat: chat, exact: exact, ids: b.ReturnTokenIDs, cut: v.cut, noise: v.comment,
		id: requestID(r, chat), model: s.cfg.Model, made: time.Now().Unix(), gens: gens,
	}
	if b.Model != "" {
		a.model = b.Model
	}
	return a, eng, true
}

// release ends what still runs of an answer.
func (a *answer) release(eng *engine) {
	for _, g := range a.gens {
		eng.abort(g)
	}
}

// startAll submits all prompts of a body, or none.
func startAll(eng *engine, gens []*generation) error {
	for i, g := range gens {
		if err := eng.submit(g); err != nil {
			for _, started := range gens[:i] {
				eng.abort(started)
			}
			return err
		}
	}
	return nil
}

// refuse answers for an engine that takes no work.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, errDead) {
		panic(http.ErrAbortHandler) // a process that is gone answers nothing
	}
	if errors.Is(err, replica.ErrTooLong) {
		err = badRequest(err.Error())
	}
	s.fail(w, err)
}

// misbehave carries out the faults due; false if the request ends there.
func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, v verdict) bool {
	if v.latency > 0 {
		t := time.NewTimer(v.latency)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			return false
		}
	}
	switch {
	case v.reset:
		reset(w)
		return false
	case v.status != 0:
		s.fail(w, &apiError{status: v.status, kind: "InternalServerError", message: "fault injected"})
		return false
	}
	return true
}

// reset closes the connection without a byte, with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// await waits until a generation reaches a state or, for running, has a new
// token; false if it died or the client left.
func await(ctx context.Context, g *generation, state int32) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-g.wake:
		}
		switch g.state.Load() {
		case killed:
			return false
		case finished:
			return true
		}
		if state == running {
			return true
		}
	}
}

// requestID honours X-Request-Id as vLLM does.
func requestID(r *http.Request, chat bool) string {
	prefix := "cmpl-"
	if chat {
		prefix = "chatcmpl-"
	}
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 256 {
		return prefix + id
	}
	return prefix + strconv.FormatUint(mix(uint64(time.Now().UnixNano()), 1), 16)
}

// usage is the token account of an answer.
type usage struct {
	Prompt     int      `json:"prompt_tokens"`
	Total      int      `json:"total_tokens"`
	Completion int      `json:"completion_tokens"`
	Details    *details `json:"prompt_tokens_details"`
}

type details struct {
	Cached int `json:"cached_tokens"`
}

// usage sums up all prompts; details are null when nothing was cached, or
// when the stand-in does not report them.
func (s *Server) usage(a *answer) usage {
	u, cached := usage{}, 0
	for _, g := range a.gens {
		u.Prompt += len(g.tokens)
		u.Completion += int(g.produced.Load())
		cached += int(g.cached.Load())
	}
	u.Total = u.Prompt + u.Completion
	if !s.cfg.HideCached && (cached > 0 || s.cfg.Engine == TRTLLM) {
		u.Details = &details{Cached: cached}
	}
	return u
}

func (a *answer) finish() string {
	if a.exact {
		return "length"
	}
	return "stop"
}

// choice is one choice of a whole answer, chat or completion.
type choice struct {
	Index     int          `json:"index"`
	Message   *chatMessage `json:"message,omitempty"`
	Text      *string      `json:"text,omitempty"`
	Logprobs  *struct{}    `json:"logprobs"`
	Finish    string       `json:"finish_reason"`
	Stop      *string      `json:"stop_reason"`
	TokenIDs  []uint32     `json:"token_ids,omitempty"`
	PromptIDs []uint32     `json:"prompt_token_ids,omitempty"`
	Disagg    *disagg      `json:"disaggregated_params,omitempty"`
}

type chatMessage struct {
	Role      string            `json:"role"`
	Content   string            `json:"content"`
	ToolCalls []json.RawMessage `json:"tool_calls"`
}

// whole writes an answer in one piece.
func (s *Server) whole(w http.ResponseWriter, r *http.Request, eng *engine, a *answer, hand *transfer) {
	out := struct {
		ID        string    `json:"id"`
		Object    string    `json:"object"`
		Created   int64     `json:"created"`
		Model     string    `json:"model"`
		Choices   []choice  `json:"choices"`
		Usage     usage     `json:"usage"`
		PromptIDs []uint32  `json:"prompt_token_ids,omitempty"`
		Transfer  *transfer `json:"kv_transfer_params,omitempty"`
	}{ID: a.id, Object: "text_completion", Created: a.made, Model: a.model, Usage: s.usage(a), Transfer: hand}
	for i, g := range a.gens {
		text := string(g.text(nil, 0, g.output))
		c := choice{Index: i, Finish: a.finish(), Text: &text}
		if a.chat {
			c.Text, c.Message = nil, &chatMessage{Role: "assistant", Content: text, ToolCalls: []json.RawMessage{}}
		}
		if a.ids {
			c.TokenIDs = g.answers(g.output)
			if a.chat {
				out.PromptIDs = g.tokens
			} else {
				c.PromptIDs = g.tokens
			}
		}
		if a.context != nil {
			c.Disagg, out.PromptIDs = a.context, g.tokens
		}
		out.Choices = append(out.Choices, c)
	}
	if a.chat {
		out.Object = "chat.completion"
	}
	s.loadHeader(w, r, eng)
	writeJSON(w, out)
}
