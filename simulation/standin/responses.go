package standin

import (
	"encoding/json"
	"net/http"
)

// responses serves the responses API: input is a text or a list of messages.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	b, err := s.readBody(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if err := b.fromResponses(); err != nil {
		s.fail(w, err)
		return
	}
	a, eng, ok := s.begin(w, r, b, true)
	if !ok {
		return
	}
	defer a.release(eng)
	if !await(r.Context(), a.gens[0], finished) {
		panic(http.ErrAbortHandler)
	}
	reply := s.responseObject(a)
	if !b.Stream {
		writeJSON(w, reply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	text := string(a.gens[0].text(nil, 0, a.gens[0].output))
	events := []struct {
		kind string
		data map[string]any
	}{
		{"response.created", map[string]any{"response": map[string]any{"id": reply["id"], "object": "response", "status": "in_progress", "model": a.model}}},
		{"response.output_text.delta", map[string]any{"item_id": "msg_0", "output_index": 0, "content_index": 0, "delta": text}},
		{"response.completed", map[string]any{"response": reply}},
	}
	for i, e := range events {
		e.data["type"], e.data["sequence_number"] = e.kind, i
		body, _ := json.Marshal(e.data) // plain values: cannot fail
		_, _ = w.Write([]byte("event: " + e.kind + "\ndata: " + string(body) + "\n\n"))
	}
}

// fromResponses turns a responses body into a chat body.
func (b *body) fromResponses() error {
	b.MaxTokens = b.MaxOutputTokens
	if len(b.Instructions) > 0 && string(b.Instructions) != "null" {
		b.Messages = append(b.Messages, message{Role: "system", Content: b.Instructions})
	}
	var text string
	if json.Unmarshal(b.Input, &text) == nil && len(b.Input) > 0 {
		b.Messages = append(b.Messages, message{Role: "user", Content: b.Input})
		return nil
	}
	var list []message
	if err := json.Unmarshal(b.Input, &list); err != nil {
		return badParam("input", "input must be a text or a list of messages")
	}
	b.Messages = append(b.Messages, list...)
	return nil
}

func (s *Server) responseObject(a *answer) map[string]any {
	g, u := a.gens[0], s.usage(a)
	cached := 0
	if u.Details != nil {
		cached = u.Details.Cached
	}
	return map[string]any{
		"id": a.id, "object": "response", "created_at": a.made, "model": a.model, "status": "completed",
		"output": []map[string]any{{
			"type": "message", "id": "msg_0", "role": "assistant", "status": "completed",
			"content": []map[string]any{{"type": "output_text", "text": string(g.text(nil, 0, g.output)), "annotations": []string{}}},
		}},
		"usage": map[string]any{
			"input_tokens": u.Prompt, "output_tokens": u.Completion, "total_tokens": u.Total,
			"input_tokens_details":  map[string]int{"cached_tokens": cached},
			"output_tokens_details": map[string]int{"reasoning_tokens": 0},
		},
	}
}
