package report

import (
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/token"
)

// KeyCure says what to do about a model whose prompts get text keys. engine is
// that of a replica that serves it.
func KeyCure(engine string, kind token.Kind, reason token.Reason) string {
	switch {
	case kind == token.Embedding && (reason == token.Unsupported || reason == token.Differs):
		return "Let the replicas' /tokenize answer the router, or let clients send token ids"
	case reason == token.Differs:
		return "List a render server (kind: render), or start vLLM with --enable-scale-out: its /render renders this model's chats as the engine does"
	case reason != token.Unsupported && reason != token.NoEngine:
		return "Give the replicas time to answer (limits.tokenize) or list render servers (kind: render)"
	case engine == "sglang":
		return "Upgrade to SGLang 0.5.23 or newer: its /tokenize takes chats"
	case engine == "vllm":
		return "Start vLLM with --enable-scale-out, or list a `vllm launch render` server (kind: render)"
	case engine == "trtllm":
		return "Upgrade to a TensorRT-LLM that has /_internal/tokenize, or let clients send token ids"
	}
	return "Nothing tells this engine's tokens for this API: let clients use /v1/chat/completions, or send token ids"
}

// keyProblems names the models whose exact routing is off.
// APIs of one model with one cure are one problem.
func keyProblems(keys []console.Keying) (out []console.Problem) {
	type group struct{ model, cure string }
	apis := map[group][]string{}
	for i := range keys {
		if k := &keys[i]; k.Off {
			of := group{k.Model, k.Cure}
			apis[of] = append(apis[of], k.API)
		}
	}
	for i := range keys {
		k := &keys[i]
		of := group{k.Model, k.Cure}
		if !k.Off || apis[of][0] != k.API {
			continue
		}
		why := k.Reason
		if k.Why != "" {
			why = k.Why
		}
		out = append(out, console.Problem{
			Text: fmt.Sprintf("Exact routing is off for %s prompts of %s: %s", strings.Join(apis[of], " and "), k.Model, why),
			Help: "They are matched by text, so only prefixes that this mesh itself routed are found. " + k.Cure,
		})
	}
	return out
}

// KeyScheme is how prompts of a replica's model are keyed: by text if those of
// any API are.
func KeyScheme(modes []token.Mode, model string) (scheme string) {
	for i := range modes {
		if m := &modes[i]; m.Model == model && (scheme == "" || m.Scheme == token.Text) {
			scheme = string(m.Scheme)
		}
	}
	return scheme
}
