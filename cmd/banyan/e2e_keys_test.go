//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

// Prompts that went past the router are found by its next one: what only the
// engine's events tell, a text or a chat of a client must match to the token.
// So it is by every way to learn a prompt's tokens, on engines as people start
// them.
func TestTextAndChatPromptsMatchWhatEventsTell(t *testing.T) {
	long := strings.Repeat("Whatever goes past a router must be found by it. ", 60)
	asks := map[string]struct{ path, first, then string }{
		"text": {"/v1/completions", `{"model":"m","prompt":"%s And now?","max_tokens":4}`, `{"model":"m","prompt":"%s And then?","max_tokens":4}`},
		"chat": {
			"/v1/chat/completions", `{"model":"m","messages":[{"role":"system","content":"%s"},{"role":"user","content":"Hello."}],"max_tokens":4}`,
			`{"model":"m","messages":[{"role":"system","content":"%s"},{"role":"user","content":"What else?"}],"reasoning_effort":"low","max_tokens":4}`,
		},
		"messages": {
			"/v1/messages", `{"model":"m","system":"%s","messages":[{"role":"user","content":"Hello."}],"max_tokens":4}`,
			`{"model":"m","system":"%s","messages":[{"role":"user","content":"What else?"}],"max_tokens":4}`,
		},
		"responses": {
			"/v1/responses", `{"model":"m","instructions":"%s","input":"Hello.","max_output_tokens":4}`,
			`{"model":"m","instructions":"%s","input":"What else?","max_output_tokens":4}`,
		},
	}
	for _, c := range []struct {
		name   string
		args   []string
		render bool // a render server beside the replicas
		rungs  map[string]string
	}{
		{"vLLM with --enable-scale-out", nil, false, map[string]string{"text": "render", "chat": "render", "messages": "render", "responses": "render"}},
		{"vLLM without", []string{"--no-scale-out"}, false, map[string]string{"text": "tokenize", "chat": "tokenize", "messages": "tokenize", "responses": "tokenize"}},
		{"vLLM without, and a render server", []string{"--no-scale-out"}, true, map[string]string{"text": "render", "chat": "render", "messages": "render", "responses": "render"}},
		{"SGLang", []string{"--engine", "sglang", "--block-size", "16"}, false, map[string]string{"text": "tokenize", "chat": "tokenize", "messages": "tokenize", "responses": "tokenize"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			replicas := []*process{replicaProcess(t, "r0", c.args...), replicaProcess(t, "r1", c.args...)}
			var cfg strings.Builder
			for i, r := range replicas {
				fmt.Fprintf(&cfg, "- {name: r%d, url: %q, events: %q, replay: %q}\n", i, "http://"+r.said["http"], r.said["events"], r.said["replay"])
			}
			if c.render {
				fmt.Fprintf(&cfg, "- {name: render, url: %q, kind: render}\n", "http://"+replicaProcess(t, "render").said["http"])
			}
			p := meshFrom(t, 1, "mesh: {insecure: true}\ndrain: {delay: 300ms, timeout: 5s}\nreplicas:\n"+cfg.String())[0]
			eventually(t, "the engines are known and followed", func() bool {
				st := p.status()
				return st != nil && !slices.ContainsFunc(st.Replicas, func(r console.Replica) bool {
					return r.Engine == "unknown" || len(r.Models) == 0 || r.Kind == "replica" && r.Stream.State != "ok"
				})
			})
			for api, ask := range asks {
				told := c.rungs[api]
				before := p.named("r0").Stream.Facts
				post(t, "http://"+replicas[0].said["http"]+ask.path, fmt.Sprintf(ask.first, api+" "+long), nil)
				eventually(t, "the peer heard of "+api, func() bool { return p.named("r0").Stream.Facts >= before+10 })
				var out struct {
					Usage json.RawMessage `json:"usage"`
				}
				header := post(t, "http://"+p.said["http"]+ask.path, fmt.Sprintf(ask.then, api+" "+long), &out)
				matched, _ := strconv.Atoi(header.Get("X-Banyan-Matched-Tokens"))
				if cached := cachedIn(out.Usage); header.Get("X-Banyan-Replica") != "r0" || cached < 400 || matched != cached {
					t.Errorf("%s went to %s, which had %d tokens of it cached, while %d were matched; keys %+v", api, header.Get("X-Banyan-Replica"), cached, matched, p.status().Keys)
				}
				name := map[string]string{"text": "completions"}[api]
				if name == "" {
					name = api
				}
				if !slices.ContainsFunc(p.status().Keys, func(k console.Keying) bool { return k.API == name && k.Rung == told && k.Exact && !k.Off }) {
					t.Errorf("%s: keyed by %+v, want by %s", api, p.status().Keys, told)
				}
			}
			p.stop()
		})
	}
}

// post sends a JSON body and reads a JSON answer.
func post(t *testing.T, url, body string, into any) http.Header {
	t.Helper()
	res, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if into == nil {
		into = &struct{}{}
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v", url, res.StatusCode, err)
	}
	return res.Header
}

// cachedIn reads the cached tokens of any API's usage.
func cachedIn(usage json.RawMessage) int {
	var u struct {
		Chat struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Responses struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Messages int `json:"cache_read_input_tokens"`
	}
	_ = json.Unmarshal(usage, &u)
	return u.Chat.Cached + u.Responses.Cached + u.Messages
}
