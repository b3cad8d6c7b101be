package router

import (
	"fmt"
	"strings"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/token"
)

// lostExact tells the log when prompts of a model begin to get text keys while
// its replicas' events are followed: block keys of events and of text never
// meet, so every event is then followed for nothing.
func (p *prompts) lostExact(q *token.Query, reason token.Reason) {
	if !p.followed(q.Model) {
		return // nothing is lost
	}
	why := ""
	for i := range q.Engines {
		if why = p.tokens.Why(&q.Engines[i], q.Kind); why != "" {
			break
		}
	}
	p.log.Warn("exact routing is off: prompts are keyed by text", "model", q.Model, "api", q.Kind.String(), "reason", string(reason),
		"why", why, "cure", cureOf(q.Engines, q.Kind, reason))
}

// cureOf says what to do about a model whose prompts get text keys.
func cureOf(asked []token.Oracle, kind token.Kind, reason token.Reason) string {
	engine := ""
	for i := range asked {
		engine = asked[i].Engine
	}
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
		return "Start vLLM with " + scaleOut + ", or list a `vllm launch render` server (kind: render)"
	case engine == "trtllm":
		return "Upgrade to a TensorRT-LLM that has /_internal/tokenize, or let clients send token ids"
	}
	return "Nothing tells this engine's tokens for this API: let clients use /v1/chat/completions, or send token ids"
}

// keyStatus is how prompts were keyed last, by model and API.
func (p *prompts) keyStatus(modes []token.Mode) []console.Keying {
	out := make([]console.Keying, 0, len(modes))
	for i := range modes {
		m := &modes[i]
		k := console.Keying{Model: m.Model, API: m.Kind.String(), Scheme: string(m.Scheme), Rung: string(m.Rung), Reason: string(m.Reason), Exact: m.Scheme.Exact()}
		if m.Scheme == token.Text {
			asked := p.servants(m)
			for j := range asked {
				if k.Why = p.tokens.Why(&asked[j], m.Kind); k.Why != "" {
					break
				}
			}
			if m.Inexact() && p.followed(m.Model) {
				k.Off, k.Cure = true, cureOf(asked, m.Kind, m.Reason)
			}
		}
		out = append(out, k)
	}
	return out
}

// servants are the servers that prompts of a mode are asked of.
func (p *prompts) servants(m *token.Mode) (out []token.Oracle) {
	for _, r := range p.fleet.List() {
		if _, ok := r.Serves(m.Model); ok && r.Engine() != "" && r.Spec.Kind != fleet.KindPool {
			out = append(out, oracleOf(r))
		}
	}
	return out
}

// followed reports whether events of a replica that serves the model are.
func (p *prompts) followed(model string) bool {
	for _, r := range p.fleet.List() {
		if _, ok := r.Serves(model); ok && r.Spec.Kind == fleet.KindReplica && p.ingest.fed(r).how != fedNot {
			return true
		}
	}
	return false
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
		why, help := k.Reason, k.Cure
		if k.Why != "" {
			why = k.Why
		}
		if strings.Contains(why, scaleOut) { // the engine tells the cure itself
			help = strings.Replace(help, "Start vLLM with "+scaleOut, "Do that", 1)
		}
		out = append(out, console.Problem{
			Text: fmt.Sprintf("Events are followed but %s prompts are keyed by text: exact routing is off for %s because %s", strings.Join(apis[of], " and "), k.Model, why),
			Help: help,
		})
	}
	return out
}

// scaleOut is the option of vLLM that turns its render endpoints on.
const scaleOut = "--enable-scale-out"

// modeOf is how prompts of a replica's model are keyed: by text if those of
// any API are.
func modeOf(modes []token.Mode, model string) (scheme string) {
	for i := range modes {
		if m := &modes[i]; m.Model == model && (scheme == "" || m.Scheme == token.Text) {
			scheme = string(m.Scheme)
		}
	}
	return scheme
}
