package standin

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
)

// dimensions of an embedding.
const dimensions = 16

// embeddings answers with vectors that depend on the tokens alone. They take
// no time: this is not what the stand-in models.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	b, err := s.readBody(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if !s.misbehave(w, r, s.faults.next()) {
		return
	}
	if _, err := s.lora(b); err != nil {
		s.fail(w, err)
		return
	}
	prompts, err := completionPrompts(b.Input)
	if err != nil {
		s.fail(w, err)
		return
	}
	type item struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	var data []item
	used := 0
	for i, tokens := range prompts {
		used += len(tokens)
		data = append(data, item{Object: "embedding", Index: i, Embedding: embed(tokens, b.EncodingFormat == "base64")})
	}
	writeJSON(w, map[string]any{
		"object": "list", "model": s.cfg.Model, "data": data,
		"usage": map[string]int{"prompt_tokens": used, "total_tokens": used},
	})
}

// embed is a unit vector, as numbers or as base64 of little-endian float32.
func embed(tokens []uint32, packed bool) any {
	seed := answerSeed(tokens, "embedding")
	vector := make([]float32, dimensions)
	norm := 0.0
	for i := range vector {
		x := float64(mix(seed, uint64(i))>>11)/(1<<52) - 1
		vector[i] = float32(x)
		norm += x * x
	}
	var raw []byte
	for i := range vector {
		vector[i] /= float32(math.Sqrt(norm))
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(vector[i]))
	}
	if packed {
		return base64.StdEncoding.EncodeToString(raw)
	}
	return vector
}
