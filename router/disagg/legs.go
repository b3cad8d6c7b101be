package disagg

import (
	"encoding/json"
	"fmt"

	"github.com/banyan-llm/banyan/router/openai"
)

// MaxAnswerBytes bounds the answer of a prefill leg. The
// block ids of a million-token prompt take under 1 MB; streams take more.
const MaxAnswerBytes = 16 << 20

// Suits reports whether two replicas can share a request: one prompt, one
// choice, output after the first token, and nothing about the prompt's own
// tokens in the answer, which only the first replica computes.
func Suits(r *openai.Request) bool {
	switch {
	case r.Endpoint != openai.Chat && r.Endpoint != openai.Completions:
		return false
	case r.N != 1 || r.MaxTokens == 1 || r.Endpoint == openai.Completions && r.Prompt.Count != 1:
		return false
	}
	for name, harmless := range telling {
		if v := r.Get(name); v != nil && string(v) != "null" && string(v) != harmless {
			return false
		}
	}
	return true
}

// telling are fields that ask for more than the tokens after the prompt, with
// the value that does not.
var telling = map[string]string{
	"best_of": "1", "echo": "false", "prompt_logprobs": "0", "use_beam_search": "false", "return_hidden_states": "false",
	"prompt_embeds": "null",
}

// Answer is what a prefill leg's answer says for the decode leg.
type Answer struct {
	Transfer []byte // raw JSON for the decode leg; nil: nothing to fetch, it computes the prompt itself
	Prompt   []byte // raw JSON: the prompt's token ids, where the decode leg needs them
	Over     bool   // generation has ended: this answer is the client's
	Finish   string
	Usage    openai.Usage
}

// wire is an answer as far as it is read.
type wire struct {
	Params  json.RawMessage `json:"kv_transfer_params"`
	Choices []struct {
		Finish *string         `json:"finish_reason"`
		Disagg json.RawMessage `json:"disaggregated_params"`
	} `json:"choices"`
	PromptIDs json.RawMessage `json:"prompt_token_ids"`
}

func readWire(body []byte) (wire, Answer, error) {
	var w wire
	if err := json.Unmarshal(body, &w); err != nil {
		return w, Answer{}, fmt.Errorf("read the prefill answer: %w", err)
	}
	a := Answer{Usage: openai.ParseUsage(body)}
	if len(w.Choices) > 0 && w.Choices[0].Finish != nil {
		a.Finish = *w.Choices[0].Finish
	}
	return w, a, nil
}

// filled returns raw JSON that says something: nil for null, {} and [].
func filled(raw json.RawMessage) []byte {
	switch string(raw) {
	case "", "null", "{}", "[]":
		return nil
	}
	return raw
}

// one makes a request compute its prompt and one token, unstreamed.
func one(r *openai.Request) *openai.Request {
	leg := r.Clone()
	leg.Set("stream", []byte("false"))
	leg.Delete("stream_options")
	leg.Set("max_tokens", []byte("1"))
	if leg.Get("max_completion_tokens") != nil {
		leg.Set("max_completion_tokens", []byte("1"))
	}
	leg.Delete("min_tokens")
	leg.Delete("min_completion_tokens")
	return leg
}
