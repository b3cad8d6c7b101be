package standin

import (
	"encoding/json"
	"errors"
	"net/http"
)

// messages serves Anthropic's Messages API as vLLM 0.32 does: the body becomes a
// chat, the answer is told in Anthropic's shapes.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	b, err := s.readBody(w, r)
	if err == nil && b.MaxTokens == nil {
		err = badParam("max_tokens", "max_tokens: Field required")
	}
	if err != nil {
		s.failMessages(w, err)
		return
	}
	b.fromMessages()
	a, eng, ok := s.begin(w, r, b, true)
	if !ok {
		return
	}
	defer a.release(eng)
	g := a.gens[0]
	if b.Stream {
		s.streamMessages(w, r, a)
		return
	}
	if !await(r.Context(), g, finished) || a.cut {
		panic(http.ErrAbortHandler)
	}
	writeJSON(w, map[string]any{
		"id": a.id, "type": "message", "role": "assistant", "model": a.model, "stop_reason": a.stopReason(), "stop_sequence": nil,
		"content": []map[string]any{{"type": "text", "text": string(g.text(nil, 0, g.output))}},
		"usage":   anthropicUsage(s.usage(a)),
	})
}

// fromMessages turns a Messages body into a chat body.
func (b *body) fromMessages() {
	if len(b.System) > 0 && string(b.System) != "null" {
		b.Messages = append([]message{{Role: "system", Content: b.System}}, b.Messages...)
	}
}

// anthropicUsage counts what came from the cache beside input_tokens, not in it.
func anthropicUsage(u usage) map[string]int {
	out := map[string]int{"input_tokens": u.Prompt, "output_tokens": u.Completion}
	if u.Details != nil {
		out["input_tokens"] -= u.Details.Cached
		out["cache_read_input_tokens"] = u.Details.Cached
	}
	return out
}

func (a *answer) stopReason() string {
	if a.exact {
		return "max_tokens"
	}
	return "end_turn"
}

// streamMessages writes an answer as Anthropic's events. As in vLLM the first one
// tells the whole prompt, and only the last one what was cached.
func (s *Server) streamMessages(w http.ResponseWriter, r *http.Request, a *answer) {
	g := a.gens[0]
	if !await(r.Context(), g, running) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w)
	tell := func(kind string, data map[string]any) {
		data["type"] = kind
		body, _ := json.Marshal(data) // plain values: cannot fail
		_, _ = w.Write([]byte("event: " + kind + "\ndata: " + string(body) + "\n\n"))
		_ = flush.Flush()
	}
	tell("message_start", map[string]any{"message": map[string]any{
		"id": a.id, "type": "message", "role": "assistant", "content": []string{}, "model": a.model, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]int{"input_tokens": len(g.tokens), "output_tokens": 0},
	}})
	tell("content_block_start", map[string]any{"index": 0, "content_block": map[string]string{"type": "text", "text": ""}})
	for sent := 0; sent < g.output; {
		produced := int(g.produced.Load())
		if produced == sent {
			if !await(r.Context(), g, running) {
				panic(http.ErrAbortHandler)
			}
			continue
		}
		tell("content_block_delta", map[string]any{"index": 0, "delta": map[string]string{"type": "text_delta", "text": string(g.text(nil, sent, produced))}})
		if a.cut {
			panic(http.ErrAbortHandler)
		}
		sent = produced
	}
	tell("content_block_stop", map[string]any{"index": 0})
	tell("message_delta", map[string]any{"delta": map[string]any{"stop_reason": a.stopReason(), "stop_sequence": nil}, "usage": anthropicUsage(s.usage(a))})
	tell("message_stop", map[string]any{})
}

// countTokens tells how long a Messages body's prompt is.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	b, err := s.readBody(w, r)
	if err != nil {
		s.failMessages(w, err)
		return
	}
	b.fromMessages()
	prompts, err := b.prompts(true)
	if err != nil {
		s.failMessages(w, err)
		return
	}
	writeJSON(w, map[string]int{"input_tokens": len(prompts[0])})
}

// failFor answers with an error in the shape of the API that was asked.
func (s *Server) failFor(w http.ResponseWriter, r *http.Request, err error) {
	if r.URL.Path == "/v1/messages" {
		s.failMessages(w, err)
		return
	}
	s.fail(w, err)
}

// failMessages answers with an error in Anthropic's shape.
func (s *Server) failMessages(w http.ResponseWriter, err error) {
	e := badRequest(err.Error())
	_ = errors.As(err, &e)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	body, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": e.kind, "message": e.message}})
	_, _ = w.Write(body)
}
