package router

import (
	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/report"
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
		"why", why, "cure", report.KeyCure(engineOf(q.Engines), q.Kind, reason))
}

// engineOf is that of the last server asked.
func engineOf(asked []token.Oracle) string {
	if len(asked) == 0 {
		return ""
	}
	return asked[len(asked)-1].Engine
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
				k.Off, k.Cure = true, report.KeyCure(engineOf(asked), m.Kind, m.Reason)
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
