package standin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// responses serves the responses API: input is a text or a list of messages.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	b, err := s.readBody(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	var turns []message
	if b.Previous != "" {
		last, ok := s.stored.get(b.Previous)
		if !ok {
			s.fail(w, noResponse(b.Previous))
			return
		}
		turns = last.turns
	}
	if err := b.fromResponses(turns); err != nil {
		s.fail(w, err)
		return
	}
	a, eng, ok := s.begin(w, r, b, true)
	if !ok {
		return
	}
	defer a.release(eng)
	if a.id = b.RequestID; a.id == "" {
		a.id = "resp_" + strconv.FormatUint(mix(uint64(time.Now().UnixNano()), 2), 16)
	}
	if !await(r.Context(), a.gens[0], finished) {
		panic(http.ErrAbortHandler)
	}
	reply := s.responseObject(a)
	if b.Store == nil || *b.Store {
		said, _ := json.Marshal(string(a.gens[0].text(nil, 0, a.gens[0].output))) // a string: cannot fail
		s.stored.put(a.id, response{reply: reply, turns: append(b.turns, message{Role: "assistant", Content: said})})
	}
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

// response is an answer that was stored, and the conversation it ends.
type response struct {
	reply map[string]any
	turns []message
}

// maxStored bounds the responses kept.
const maxStored = 1024

// stored are the responses of one process: they end with it, as vLLM's do.
type stored struct {
	mu   sync.Mutex
	byID map[string]response
}

func (s *stored) put(id string, r response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil || len(s.byID) >= maxStored {
		s.byID = map[string]response{}
	}
	s.byID[id] = r
}

func (s *stored) get(id string) (response, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byID[id]
	return r, ok
}

func (s *stored) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = nil
}

// noResponse is vLLM's word on an id that it does not hold.
func noResponse(id string) *apiError {
	return &apiError{status: http.StatusNotFound, kind: "invalid_request_error", param: "response_id", message: "Response with id '" + id + "' not found."}
}

// storedResponse answers for a response stored before; all of them are complete,
// so that none can be cancelled.
func (s *Server) storedResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	found, ok := s.stored.get(id)
	switch {
	case !ok:
		s.fail(w, noResponse(id))
	case r.Method == http.MethodPost:
		s.fail(w, badParam("response_id", "Cannot cancel a synchronous response."))
	default:
		writeJSON(w, found.reply)
	}
}

// fromResponses turns a responses body into a chat body that goes on from turns.
func (b *body) fromResponses(turns []message) error {
	b.MaxTokens = b.MaxOutputTokens
	if err := b.readInput(); err != nil {
		return err
	}
	b.turns = append(slices.Clone(turns), b.turns...)
	b.Messages = append(b.Messages, b.turns...)
	return nil
}

// readInput reads the instructions into the messages and the input into turns:
// instructions are of one request only.
func (b *body) readInput() error {
	if len(b.Instructions) > 0 && string(b.Instructions) != "null" {
		b.Messages = append(b.Messages, message{Role: "system", Content: b.Instructions})
	}
	var text string
	if json.Unmarshal(b.Input, &text) == nil && len(b.Input) > 0 {
		b.turns = []message{{Role: "user", Content: b.Input}}
		return nil
	}
	var list []message
	if err := json.Unmarshal(b.Input, &list); err != nil {
		return badParam("input", "input must be a text or a list of messages")
	}
	b.turns = list
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
