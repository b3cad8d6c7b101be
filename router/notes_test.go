package router

import (
	"errors"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
)

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
		t.Errorf("%+v", got)
	}
}

func TestTheSameCureIsToldOnce(t *testing.T) {
	why := "/v1/messages/render answered 403: Restart vllm serve with --enable-scale-out to enable them"
	cure := "Start vLLM with --enable-scale-out, or list a `vllm launch render` server (kind: render)"
	got := keyProblems([]console.Keying{
		{Model: "m", API: "chat", Exact: true}, {Model: "m", API: "messages", Off: true, Why: why, Cure: cure}, {Model: "m", API: "responses", Off: true, Why: why, Cure: cure},
	})
	if len(got) != 1 || !strings.Contains(got[0].Text, "messages and responses prompts") || strings.Count(got[0].Text+got[0].Help, "--enable-scale-out") != 1 {
		t.Errorf("%+v", got)
	}
}

// A faulty file is said to be faulty once, and to be right again once.
func TestAMendedConfigurationIsTold(t *testing.T) {
	p, s, log := followingPeer(t, func(c *Config) { c.Replicas = []fleet.Spec{{Name: "a", URL: "http://a:1"}} })
	s.change(func(*Config) {}, errors.New("a: no such key (line 1)"))
	for range 3 {
		if p.rules.reload(false) == nil {
			t.Fatal("taken up")
		}
	}
	var out strings.Builder
	if err := p.Status().WriteChecks(&out, console.Look{}); err != nil || !strings.Contains(out.String(), "× a changed configuration was not taken up") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	s.change(func(*Config) {}, nil)
	for range 2 {
		if err := p.rules.reload(false); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); strings.Count(text, "configuration rejected") != 1 || strings.Count(text, "valid again") != 1 {
		t.Errorf("%s", text)
	}
}
