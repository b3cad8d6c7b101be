package openai

import "strings"

// Endpoint is the API a body is for: it says where the prompt is.
type Endpoint uint8

// The endpoints a router reads prompts of. Other is everything else.
const (
	Other Endpoint = iota
	Chat
	Completions
	Embeddings
	Responses
	Tokenize
	Messages    // Anthropic
	CountTokens // Anthropic: the tokens of a Messages body
	ChatBatch   // vLLM: several conversations, one answer each
	Generate    // vLLM: token ids in, token ids out
	SGLGenerate // SGLang's own
	Rerank
	Score
	Classify
	Pooling
	Detokenize
	endpoints // how many there are
)

// paths are the URL paths of each endpoint; the first one names it.
var paths = [endpoints][]string{
	Chat: {"/v1/chat/completions"}, Completions: {"/v1/completions"}, Embeddings: {"/v1/embeddings"},
	Responses: {"/v1/responses"}, Messages: {"/v1/messages"}, CountTokens: {"/v1/messages/count_tokens"},
	ChatBatch: {"/v1/chat/completions/batch"}, Generate: {"/inference/v1/generate"}, SGLGenerate: {"/generate"},
	Rerank: {"/v1/rerank", "/rerank", "/v2/rerank"}, Score: {"/v1/score", "/score"},
	Classify: {"/classify", "/v1/classify"}, Pooling: {"/pooling"},
	Tokenize: {"/tokenize", "/v1/tokenize"}, Detokenize: {"/detokenize", "/v1/detokenize"},
}

var byPath = func() map[string]Endpoint {
	all := map[string]Endpoint{}
	for e, names := range paths {
		for _, name := range names {
			all[name] = Endpoint(e)
		}
	}
	return all
}()

// EndpointOf names the endpoint that a URL path stands for.
func EndpointOf(path string) Endpoint { return byPath[path] }

// Path is the URL path of the endpoint, "" for Other. Some have others besides.
func (e Endpoint) Path() string {
	if e == Other || e >= endpoints {
		return ""
	}
	return paths[e][0]
}

// pools reports whether a pooling model answers it: a prompt goes in, a vector or
// a class comes out.
func (e Endpoint) pools() bool { return e == Embeddings || e == Classify || e == Pooling }

// Anthropic reports whether the endpoint speaks Anthropic's API: its errors and
// its stream have other shapes.
func (e Endpoint) Anthropic() bool { return e == Messages || e == CountTokens }

// Salted reports whether engines read cache_salt at this endpoint: the answer
// comes from cached blocks.
func (e Endpoint) Salted() bool {
	switch e {
	case Other, Tokenize, Detokenize, CountTokens:
		return false
	}
	return true
}

// StoredResponse is the id in the path of a stored answer of the responses API
// (GET, DELETE, and POST of its cancel), "" if the path is another.
func StoredResponse(path string) string {
	id, ok := strings.CutPrefix(path, paths[Responses][0]+"/")
	if !ok {
		return ""
	}
	id, verb, _ := strings.Cut(id, "/")
	if verb != "" && verb != "cancel" && verb != "input_items" {
		return ""
	}
	return id
}
