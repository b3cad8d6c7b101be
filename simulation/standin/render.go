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

// render answers with the tokens of a prompt: a list for completions, else an
// object, as vLLM does. read turns the body into a chat; nil: it is a prompt.
func (s *Server) render(read func(*body) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, _, off := s.faults.flags(); off || s.current() == nil {
			s.fail(w, noRoute())
			return
		}
		if s.cfg.NoScaleOut {
			s.fail(w, &apiError{status: http.StatusForbidden, kind: "PermissionDeniedError", message: "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."})
			return
		}
		out, err := s.rendered(w, r, read)
		switch {
		case err != nil:
			s.fail(w, err)
		case read != nil:
			writeJSON(w, out[0])
		default:
			writeJSON(w, out)
		}
	}
}

func (s *Server) rendered(w http.ResponseWriter, r *http.Request, read func(*body) error) ([]rendered, error) {
	b, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	if _, err := s.lora(b); err != nil {
		return nil, err
	}
	if read != nil {
		if err := read(b); err != nil {
			return nil, err
		}
	}
	prompts, err := b.prompts(read != nil)
	if err != nil {
		return nil, err
	}
	out := make([]rendered, len(prompts))
	for i, tokens := range prompts {
		out[i] = rendered{RequestID: requestID(r, read != nil), TokenIDs: tokens, Sampling: map[string]int{}, Model: s.cfg.Model}
		if b.CacheSalt != "" {
			out[i].CacheSalt = &b.CacheSalt
		}
		if b.MaxTokens != nil {
			out[i].Sampling["max_tokens"] = *b.MaxTokens
		}
	}
	return out, nil
}

// renderRoutes are vLLM's render endpoints.
func (s *Server) renderRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/completions/render", s.render(nil))
	m.HandleFunc("POST /v1/chat/completions/render", s.render(func(*body) error { return nil }))
	m.HandleFunc("POST /v1/messages/render", s.render(func(b *body) error {
		if b.MaxTokens == nil {
			return badParam("max_tokens", "max_tokens: Field required")
		}
		b.fromMessages()
		return nil
	}))
	m.HandleFunc("POST /v1/responses/render", s.render(func(b *body) error {
		if b.Previous != "" {
			return badParam("previous_response_id", "previous_response_id is not supported by the stateless render endpoint.")
		}
		return b.fromResponses(nil)
	}))
}

// tokenize answers with count and tokens of a prompt or of chat messages.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	if _, _, off := s.faults.flags(); off || s.current() == nil {
		s.fail(w, noRoute())
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
