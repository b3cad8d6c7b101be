package disagg

import "github.com/banyan-llm/banyan/router/openai"

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
