package standin

import "net/http"

// rendered is the answer of the render endpoints.
type rendered struct {
	RequestID string         `json:"request_id"`
	TokenIDs  []uint32       `json:"token_ids"`
	Features  *struct{}      `json:"features"`
	Sampling  map[string]int `json:"sampling_params"`
	Model     string         `json:"model"`
	CacheSalt *string        `json:"cache_salt"`
}

// render answers with the tokens of a prompt: an object for a chat, a list
// for completions, as vLLM does.
func (s *Server) render(w http.ResponseWriter, r *http.Request, chat bool) {
	if _, _, off := s.faults.flags(); off || s.current() == nil {
		s.fail(w, notFound("Not Found"))
		return
	}
	b, err := s.readBody(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if _, err := s.lora(b); err != nil {
		s.fail(w, err)
		return
	}
	prompts, err := b.prompts(chat)
	if err != nil {
		s.fail(w, err)
		return
	}
	out := make([]rendered, len(prompts))
	for i, tokens := range prompts {
		out[i] = rendered{RequestID: requestID(r, chat), TokenIDs: tokens, Sampling: map[string]int{}, Model: s.cfg.Model}
		if b.CacheSalt != "" {
			out[i].CacheSalt = &b.CacheSalt
		}
		if b.MaxTokens != nil {
			out[i].Sampling["max_tokens"] = *b.MaxTokens
		}
	}
	if chat {
		writeJSON(w, out[0])
		return
	}
	writeJSON(w, out)
}

// tokenize answers with count and tokens of a prompt or of chat messages.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	if _, _, off := s.faults.flags(); off || s.current() == nil {
		s.fail(w, notFound("Not Found"))
		return
	}
	b, err := s.readBody(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	prompts, err := b.prompts(len(b.Messages) > 0)
	if err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, map[string]any{
		"count": len(prompts[0]), "max_model_len": s.maxModelLen, "tokens": prompts[0], "token_strs": nil,
	})
}
