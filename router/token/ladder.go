package token

import "net/http"

// Kind says of which API a question's body is.
type Kind uint8

// The kinds of questions.
const (
	Completion Kind = iota
	Chat
	Messages  // Anthropic's
	Responses // OpenAI's
	Embedding // what becomes a vector or a class
	kinds
)

func (k Kind) String() string {
	return [...]string{"completions", "chat", "messages", "responses", "embeddings"}[k]
}

// Rung is one way to learn a prompt's exact tokens.
type Rung string

// The rungs.
const (
	Render   Rung = "render"   // the engine renders the request's own body
	Tokenize Rung = "tokenize" // its tokenizer takes the prompt, rewritten for it
)

// step is one rung of an engine's ladder.
type step struct {
	rung  Rung
	path  string
	proof string // tells how many tokens the request itself has; "": nothing does
}

// countTokens uses the server's own conversion of a Messages body.
const countTokens = "/v1/messages/count_tokens"

// maxSteps is the length of the longest ladder.
const maxSteps = 2

// ladder lists how an engine of this kind can be asked, best first.
//
// vLLM: render is exact by construction, with the names of images, but from
// 0.30 on it answers 403 unless the server runs with --enable-scale-out;
// /tokenize is always there, renders chats with the same code, and knows no
// images. Messages and Responses are rewritten into the chats that it makes of
// them, which is proven prompt by prompt (see question.go). Servers of pooling
// models have no render.
// SGLang: /tokenize takes a chat's whole body from 0.5.23 on; older releases
// take a prompt alone and refuse messages. Messages and Responses are rewritten
// as it does it itself.
// TensorRT-LLM: /_internal/tokenize of newer releases takes prompt or messages
// and no other field.
func ladder(engine string, k Kind) []step {
	switch engine {
	case "vllm", "":
		steps := [kinds][]step{
			Completion: {{Render, "/v1/completions/render", ""}, {Tokenize, "/tokenize", ""}},
			Chat:       {{Render, "/v1/chat/completions/render", ""}, {Tokenize, "/tokenize", ""}},
			Messages:   {{Render, "/v1/messages/render", ""}, {Tokenize, "/tokenize", countTokens}},
			Responses:  {{Render, "/v1/responses/render", ""}, {Tokenize, "/tokenize", ""}},
			Embedding:  {{Tokenize, "/tokenize", ""}},
		}
		return steps[k]
	case "sglang":
		if k == Messages {
			return []step{{Tokenize, "/tokenize", countTokens}}
		}
		return []step{{Tokenize, "/tokenize", ""}}
	case "trtllm":
		if k == Completion || k == Chat {
			return []step{{Tokenize, "/_internal/tokenize", ""}}
		}
	}
	return nil
}

// Oracle is a server that may be asked for tokens.
type Oracle struct {
	URL    string
	Engine string // vllm, sglang or trtllm; "": not known yet, asked as vLLM is
	// Life grows when the server came up again: what was learned of it before is
	// forgotten then. Ranks behind one URL may each have their own.
	Life   int64
	Header http.Header
}

// Asks reports whether an engine can be asked for prompts of a kind at all.
func Asks(engine string, k Kind) bool { return len(ladder(engine, k)) > 0 }
