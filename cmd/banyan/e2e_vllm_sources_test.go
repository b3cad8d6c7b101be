//go:build e2e && e2e_vllm && linux

package main

import (
	"fmt"
	"net/http"
	"testing"
)

// sources: a server that is told to fetch KV blocks from where there is no P2P
// tier answers as if it had been told nothing. No server here has such a tier: that takes a GPU.
func (w *vllmWorld) sources(t *testing.T) {
	entry := func(e *vllm) string {
		return fmt.Sprintf("{name: %s, url: %q, events: %q, replay: %q, p2p: \"127.0.0.1:9\"}", e.name, e.url(), e.events(), e.replay())
	}
	p := launch(t, append([]string{
		"serve", "--insecure-mesh", "--mesh.name", "sources", "--drain.delay", "100ms",
		"--replicas", "[" + entry(w.open) + ", " + entry(w.closed) + "]",
	}, anyPorts...)...)
	eventually(t, "the peer follows both servers", func() bool {
		for _, e := range w.engines {
			if r := p.named(e.name); r.State != "up" || r.Stream.State != "ok" {
				return false
			}
		}
		return true
	})
	fetches := func() int { // vLLM may leave out that it found nothing cached
		return p.counted(`banyan_kv_fetches_total{outcome="computed"}`) + p.counted(`banyan_kv_fetches_total{outcome="unknown"}`)
	}
	said := func(r reply) string { return fmt.Sprint(r.doc["choices"], r.doc["content"]) }
	body := object{"model": "tiny", "prompt": w.ids(3000), "max_tokens": 8, "temperature": 0}
	facts := p.named(w.open.name).Stream.Facts
	alone := sendPrompt(t, w.open.url()+"/v1/completions", body)
	eventually(t, "the peer hears what the server holds", func() bool { return p.named(w.open.name).Stream.Facts > facts+10 })
	p.intent(w.open.name, "drain") // the other one has to fetch it
	told := sendPrompt(t, p.url()+"/v1/completions", body)
	if at := told.replica(); at != w.closed.name {
		t.Fatalf("answered by %s", at)
	}
	eventually(t, "the source that it was told of is counted", func() bool { return fetches() == 1 })
	if said(told) != said(alone) {
		t.Errorf("told of a source it answers %s, alone %s", said(told), said(alone))
	}
	nobody := object{"remote_kv_source": object{"kv_request_id": "x", "remote_host": "127.0.0.1", "remote_port": 9}}
	for path, body := range map[string]object{
		"/v1/completions":      {"model": "tiny", "prompt": w.ids(500), "max_tokens": 4, "temperature": 0},
		"/v1/chat/completions": w.chat(say("user", w.text(20))),
		"/v1/messages":         {"model": "tiny", "messages": []object{say("user", w.text(20))}, "max_tokens": 4, "temperature": 0},
	} {
		for _, e := range w.engines {
			told, alone := ask(t, http.MethodPost, e.url()+path, w.with(body, "kv_transfer_params", nobody)), sendPrompt(t, e.url()+path, body)
			if told.status != http.StatusOK || said(told) != said(alone) {
				t.Errorf("%s %s: %d %s, alone %s", e.name, path, told.status, told.raw, alone.raw)
			}
		}
	}
}
