package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// body is the part of a request body that the stand-in looks at.
type body struct {
	Model    string          `json:"model"`
	Messages []message       `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Prompt   json.RawMessage `json:"prompt"`

	Stream        bool `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           *int   `json:"max_tokens"`
	MaxCompletionTokens *int   `json:"max_completion_tokens"`
	N                   *int   `json:"n"`
	CacheSalt           string `json:"cache_salt"`
	ReturnTokenIDs      bool   `json:"return_token_ids"`
	AddGenerationPrompt *bool  `json:"add_generation_prompt"`

	Input           json.RawMessage `json:"input"` // embeddings, responses
	EncodingFormat  string          `json:"encoding_format"`
	Instructions    json.RawMessage `json:"instructions"`
	MaxOutputTokens *int            `json:"max_output_tokens"`
	RequestID       string          `json:"request_id"` // the id of the response
	Previous        string          `json:"previous_response_id"`
	Store           *bool           `json:"store"`

	System json.RawMessage `json:"system"` // messages

	turns []message // responses: the conversation without instructions

	Transfer  *transfer `json:"kv_transfer_params"`
	Disagg    *disagg   `json:"disaggregated_params"` // TensorRT-LLM
	PromptIDs []uint32  `json:"prompt_token_ids"`     // chat, as a context server cut it
}

// readBody decodes a bounded body.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*body, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, &apiError{status: http.StatusRequestEntityTooLarge, kind: "BadRequestError", message: "body too large"}
		}
		return nil, badRequest("reading the body: " + err.Error())
	}
	b := new(body)
	if err := json.Unmarshal(raw, b); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, badParam(wrong.Field, fmt.Sprintf("%s: wrong type %s", wrong.Field, wrong.Value))
		}
		return nil, badRequest("There was an error parsing the body: " + err.Error())
	}
	return b, nil
}

// lora checks the model name and returns the adapter it names, "" for the
// base model. SGLang does not check.
func (s *Server) lora(b *body) (string, error) {
	switch {
	case b.Model == "" || b.Model == s.cfg.Model:
		return "", nil
	case slices.Contains(s.cfg.Loras, b.Model):
		return b.Model, nil
	case s.cfg.Engine == SGLang:
		return "", nil
	}
	e := notFound(fmt.Sprintf("The model `%s` does not exist.", b.Model))
	e.param = "model"
	return "", e
}

// prompts renders the body into token ids: exactly what the engine uses. I1.
// Chat bodies give one prompt, completions one for each of their prompts.
func (b *body) prompts(chat bool) ([][]uint32, error) {
	if chat && len(b.PromptIDs) > 0 {
		return checkPrompts([][]uint32{b.PromptIDs})
	}
	if chat {
		tokens, err := renderChat(b.Messages, b.Tools)
		if err != nil {
			return nil, err
		}
		if b.AddGenerationPrompt != nil && !*b.AddGenerationPrompt {
			tokens = tokens[:len(tokens)-1]
		}
		return [][]uint32{tokens}, nil
	}
	return completionPrompts(b.Prompt)
}

// completionPrompts reads a string, a list of strings, a list of token ids or
// a list of such lists.
func completionPrompts(raw json.RawMessage) ([][]uint32, error) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return nil, badParam("prompt", "prompt is required")
	}
	if json.Unmarshal(raw, &text) == nil {
		return checkPrompts([][]uint32{appendText([]uint32{tokenBOS}, text)})
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		return checkPrompts([][]uint32{ids})
	}
	var lists [][]uint32
	if json.Unmarshal(raw, &lists) == nil {
		return checkPrompts(lists)
	}
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		lists = nil // the failed attempt above left something in it
		for _, t := range texts {
			lists = append(lists, appendText([]uint32{tokenBOS}, t))
		}
		return checkPrompts(lists)
	}
	return nil, badParam("prompt", "prompt must be a string, array of strings, array of tokens, or array of token arrays")
}

// maxPrompts bounds the prompts of one body.
const maxPrompts = 256

func checkPrompts(lists [][]uint32) ([][]uint32, error) {
	if len(lists) == 0 || len(lists) > maxPrompts {
		return nil, badParam("prompt", fmt.Sprintf("%d prompts, want 1 to %d", len(lists), maxPrompts))
	}
	for _, ids := range lists {
		if len(ids) == 0 {
			return nil, badParam("prompt", "The decoder prompt cannot be empty")
		}
		for _, id := range ids {
			if id >= vocabulary {
				return nil, badParam("prompt", fmt.Sprintf("Token id %d is out of vocabulary", id))
			}
		}
	}
	return lists, nil
}

// limit is the number of tokens to produce for a prompt, and whether the
// client asked for exactly that many.
func (s *Server) limit(b *body, prompt int, seed uint64) (n int, asked bool, err error) {
	room := s.maxModelLen - prompt
	want := b.MaxCompletionTokens
	if want == nil {
		want = b.MaxTokens
	}
	if want != nil && *want < 1 {
		return 0, false, badParam("max_tokens", fmt.Sprintf("max_tokens must be at least 1, got %d.", *want))
	}
	if room < 1 || want != nil && *want > room {
		asks := 1
		if want != nil {
			asks = *want
		}
		return 0, false, badParam("max_tokens", fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). Please reduce the length of the messages or completion.",
			s.maxModelLen, prompt+asks, prompt, asks))
	}
	if want != nil {
		return *want, true, nil
	}
	mean := s.cfg.DefaultOutput
	return min(room, 1+mean/2+int(mix(seed, 7)%uint64(mean))), false, nil
}

// answerSeed is what the answer to a prompt depends on: its tokens, the
// adapter and nothing else. I2.
func answerSeed(tokens []uint32, lora string) uint64 {
	h := fold(3, lora)
	for _, t := range tokens {
		h = (h ^ uint64(t)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// generations turns a body into what the engine runs.
func (s *Server) generations(b *body, chat bool) ([]*generation, bool, error) {
	lora, err := s.lora(b)
	if err != nil {
		return nil, false, err
	}
	if b.N != nil && *b.N != 1 {
		return nil, false, badParam("n", "only n=1 is supported")
	}
	prompts, err := b.prompts(chat)
	if err != nil {
		return nil, false, err
	}
	given, err := b.given(s.cfg.Page)
	if err == nil && s.cfg.Engine == TRTLLM && b.Disagg != nil {
		given, err = b.Disagg.given()
	}
	if err != nil {
		return nil, false, err
	}
	out := make([]*generation, len(prompts))
	exact := false
	for i, tokens := range prompts {
		g := &generation{tokens: tokens, seed: answerSeed(tokens, lora), lora: lora, salt: b.CacheSalt, given: given}
		if g.output, exact, err = s.limit(b, len(tokens), g.seed); err != nil {
			return nil, false, err
		}
		if s.cfg.Engine == TRTLLM && b.Disagg != nil && b.Disagg.Type == contextOnly {
			g.output, exact = 1, true
		}
		out[i] = g
	}
	return out, exact, nil
}

// text is the generated text of tokens [from, to).
func (g *generation) text(dst []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		dst = appendWord(dst, g.answer(i), i == 0)
	}
	return dst
}

// answers copies the first n generated token ids.
func (g *generation) answers(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = g.answer(i)
	}
	return ids
}
