package standin

import (
	"encoding/base64"
	"fmt"
)

// The request types of disagg.
const (
	contextOnly    = "context_only"
	generationOnly = "generation_only"
)

// disagg is TensorRT-LLM's disaggregated_params. A context leg computes the
// prompt and one token; what it answers with goes to a generation leg, whose
// prompt is the token ids that came along.
type disagg struct {
	Type      string   `json:"request_type"`
	First     []uint32 `json:"first_gen_tokens,omitempty"`
	ContextID uint64   `json:"ctx_request_id,omitempty"`
	RequestID uint64   `json:"disagg_request_id,omitempty"`
	State     string   `json:"encoded_opaque_state,omitempty"`
}

// given is the number of prompt tokens a generation leg brings.
func (d *disagg) given() (tokens int, err error) {
	switch d.Type {
	case contextOnly:
		return 0, nil
	case generationOnly:
	default:
		return 0, badParam("disaggregated_params", fmt.Sprintf("request_type %q is unknown", d.Type))
	}
	raw, err := base64.StdEncoding.DecodeString(d.State)
	if err != nil || len(d.First) == 0 || d.ContextID == 0 {
		return 0, badParam("disaggregated_params", "generation_only needs first_gen_tokens, ctx_request_id and encoded_opaque_state")
	}
	if _, err := fmt.Sscanf(string(raw), "kv of %d tokens", &tokens); err != nil || tokens < 0 || tokens > maxModelLen {
		return 0, badParam("disaggregated_params", "encoded_opaque_state is not of this engine")
	}
	return tokens, nil
}

// handContext is what a context leg is answered with.
func (s *Server) handContext(b *body, a *answer) *disagg {
	g := a.gens[0]
	return &disagg{
		Type: contextOnly, First: g.answers(1), ContextID: g.id + 1, RequestID: b.Disagg.RequestID,
		State: base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "kv of %d tokens", len(g.tokens)/s.cfg.Page*s.cfg.Page)),
	}
}
