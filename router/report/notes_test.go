package report

import (
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

// TestAReplicaWithoutEventsIsNotedWithACure: once for all that have it in common (I3).
func TestAReplicaWithoutEventsIsNotedWithACure(t *testing.T) {
	none := console.Stream{State: "none"}
	s := console.Status{Replicas: []console.Replica{
		{Name: "a", Engine: "vllm", State: "up", Stream: none},
		{Name: "b", Engine: "vllm", State: "up", Stream: none},
		{Name: "c", Engine: "sglang", State: "up", Stream: console.Stream{State: "ok"}},
		{Name: "d", Engine: "sglang", State: "down", Stream: none},
		{Name: "p", Kind: "pool", State: "up", Stream: none},
	}}
	got := notes(&s)
	if len(got) != 1 || !strings.HasPrefix(got[0].Text, "a, b announce no cache events") || !strings.Contains(got[0].Help, "--kv-events-config") {
		t.Errorf("I3: %+v", got)
	}
}

// TestTheSameCureIsToldOnce is I3 for exact routing.
func TestTheSameCureIsToldOnce(t *testing.T) {
	why := "/v1/messages/render answered 403"
	cure := "Start vLLM with --enable-scale-out, or list a `vllm launch render` server (kind: render)"
	got := keyProblems([]console.Keying{
		{Model: "m", API: "chat", Exact: true}, {Model: "m", API: "messages", Off: true, Why: why, Cure: cure}, {Model: "m", API: "responses", Off: true, Why: why, Cure: cure},
	})
	if len(got) != 1 || !strings.Contains(got[0].Text, "messages and responses prompts") || strings.Count(got[0].Text+got[0].Help, "--enable-scale-out") != 1 {
		t.Errorf("I3: %+v", got)
	}
}

func TestAChangeThatNeedsANewMeshIsNoted(t *testing.T) {
	s := console.Status{Config: console.Config{Restart: []string{"hedge.after"}}}
	if got := notes(&s); got != nil {
		t.Errorf("hedge.after: %+v", got)
	}
	s.Config.Restart = append(s.Config.Restart, "grid")
	if got := notes(&s); len(got) != 1 || !strings.HasSuffix(got[0].Text, ": grid") || !strings.Contains(got[0].Help, "Do not restart") {
		t.Errorf("grid: %+v", got)
	}
}

// TestHiddenCachedTokensAreNotedWithACure: each engine has an option of its own.
func TestHiddenCachedTokensAreNotedWithACure(t *testing.T) {
	ok := console.Stream{State: "ok"}
	s := console.Status{Replicas: []console.Replica{
		{Name: "a", Engine: "vllm", State: "up", Stream: ok, HidesCached: true},
		{Name: "b", Engine: "vllm", State: "up", Stream: ok},
		{Name: "c", Engine: "vllm", State: "up", Stream: ok, HidesCached: true},
		{Name: "d", Engine: "sglang", State: "up", Stream: ok, HidesCached: true},
		{Name: "e", Engine: "sglang", State: "down", Stream: ok, HidesCached: true},
	}}
	got := notes(&s)
	if len(got) != 2 || !strings.HasPrefix(got[0].Text, "a, c do not report") || !strings.HasSuffix(got[0].Help, "--enable-prompt-tokens-details") ||
		!strings.HasPrefix(got[1].Text, "d does not report") || !strings.HasSuffix(got[1].Help, "--enable-cache-report") {
		t.Errorf("%+v", got)
	}
}
