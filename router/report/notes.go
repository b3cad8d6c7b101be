package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/workingset"
)

// notes says what works and could work better, with a cure each. It is no
// trouble: an engine may be without events on purpose.
func notes(s *console.Status) (out []console.Problem) {
	silent := byCure(s.Replicas, func(r *console.Replica) bool { return r.Stream.State == "none" }, silentCure)
	for _, g := range silent {
		who, whose := " announces", "its"
		if len(g.names) > 1 {
			who, whose = " announce", "their"
		}
		out = append(out, console.Problem{
			Text: listed(g.names) + who + " no cache events: " + whose + " cache is predicted from the requests that peers send there and the cached tokens that responses report",
			Help: g.cure,
		})
	}
	for _, g := range byCure(s.Replicas, func(r *console.Replica) bool { return r.HidesCached }, hiddenCure) {
		who := " does"
		if len(g.names) > 1 {
			who = " do"
		}
		out = append(out, console.Problem{
			Text: listed(g.names) + who + " not report how many prompt tokens were cached: predictions that turn out wrong are not corrected, and cached tokens are not counted",
			Help: g.cure,
		})
	}
	if _, newMesh := console.Pending(s.Config.Restart); newMesh != nil {
		out = append(out, console.Problem{
			Text: "The file has another value than this peer for what all peers must agree on: " + strings.Join(newMesh, ", "),
			Help: console.NewMeshHelp,
		})
	}
	return out
}

// alike are replicas that have a cure in common.
type alike struct {
	cure  string
	names []string
}

// byCure groups the replicas that answer and of which something is so.
func byCure(replicas []console.Replica, is func(*console.Replica) bool, cureOf func(*console.Replica) string) (out []alike) {
	for i := range replicas {
		r := &replicas[i]
		if !r.Answers() || r.Kind != "" && r.Kind != "replica" || !is(r) {
			continue
		}
		cure := cureOf(r)
		at := slices.IndexFunc(out, func(a alike) bool { return a.cure == cure })
		if at < 0 {
			at, out = len(out), append(out, alike{cure: cure})
		}
		out[at].names = append(out[at].names, r.Name)
	}
	return out
}

// hiddenCure says how an engine is made to tell cached tokens.
func hiddenCure(r *console.Replica) string {
	switch r.Engine {
	case "vllm":
		return "Start vLLM with --enable-prompt-tokens-details"
	case "sglang":
		return "Start SGLang with --enable-cache-report"
	}
	return "Start the engine so that usage has prompt_tokens_details.cached_tokens"
}

// silentCure says how an engine's events would be had.
func silentCure(r *console.Replica) string {
	if strings.Contains(r.Stream.Detail, "says that it publishes at") {
		return "Set `events` to the address where it publishes, if that is right"
	}
	switch r.Engine {
	case "vllm":
		return "Start vLLM with --kv-events-config, and before 0.32 set `events` and `replay` here (deploy/README.md#engines)"
	case "sglang":
		return "Start SGLang with --kv-events-config (deploy/README.md#engines)"
	case "trtllm":
		return "Set `events` to poll if no other program reads its events (deploy/README.md#engines)"
	}
	return "Set `engine` and `events` if the engine publishes them (deploy/README.md#engines)"
}

// listed joins names, the first few of many.
func listed(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and others"
}

// crowdedNotes say when the caches cannot hold what is in use, and when the
// rule for it cannot work.
func crowdedNotes(w *console.WorkingSet) (out []console.Problem) {
	if w == nil {
		return nil
	}
	if w.Share > 0 && w.Unknown > 0 {
		out = append(out, console.Problem{
			Text: fmt.Sprintf("admission.working_set does nothing where a replica's engine does not tell the size of its KV cache: %d do not", w.Unknown),
			Help: "vLLM and SGLang tell it on /metrics; make sure that the router can read them",
		})
	}
	if w.UsedTokens > w.CacheTokens && w.Again >= workingset.ReuseShare {
		out = append(out, console.Problem{
			Text: fmt.Sprintf("Conversations evict each other's KV blocks and compute them again: in the last %d s prompts used %d tokens, the caches hold %d", w.Seconds, w.UsedTokens, w.CacheTokens),
			Help: "Add replicas or host memory, or queue new conversations (admission.working_set = 0.8)",
		})
	}
	return out
}
