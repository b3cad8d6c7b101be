//go:build e2e && e2e_vllm && linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// creditNothing: what reads no cache and what is refused is believed to find
// nothing cached.
func (w *vllmWorld) creditNothing(t *testing.T, e *vllm) {
	chat := w.chat(say("user", w.text(40)))
	sendPrompt(t, e.url()+"/v1/chat/completions", chat)
	w.settle(t, "after a chat")
	var seen []string
	for range 2 {
		r := sendPrompt(t, e.alone.url()+"/v1/chat/completions", w.with(chat, "echo", true))
		if r.matched(t) != 0 || r.cached(t) != 0 {
			t.Errorf("a chat that comes back: %d tokens matched, %d cached", r.matched(t), r.cached(t))
		}
		seen = append(seen, fmt.Sprintf("%d/%d", r.matched(t), r.cached(t)))
	}
	w.note(e, "chat, echo", seen)
	if e != w.closed {
		return
	}
	generate := object{"model": "tiny", "token_ids": w.ids(300), "sampling_params": object{"max_tokens": 2}}
	seen = nil
	for range 3 {
		r := ask(t, http.MethodPost, e.alone.url()+"/inference/v1/generate", generate)
		if r.status != http.StatusForbidden || r.matched(t) != 0 {
			t.Errorf("generate without --enable-scale-out: status %d, %d tokens matched", r.status, r.matched(t))
		}
		seen = append(seen, fmt.Sprintf("%d/-", r.matched(t)))
	}
	w.note(e, "generate, refused", seen)
}

// continuation: a response that goes on from a stored one is priced by what its
// holder has, which its keys cannot tell: they are of what the client sent anew.
func (w *vllmWorld) continuation(t *testing.T, e *vllm) {
	var seen []string
	previous := ""
	for range 4 {
		w.settle(t, "after a response")
		body := object{"model": "tiny", "max_output_tokens": 8, "temperature": 0, "input": "And then?"}
		if previous == "" {
			body["input"] = w.text(40)
		} else {
			body["previous_response_id"] = previous
		}
		r := sendPrompt(t, e.alone.url()+"/v1/responses", body)
		if matched, cached := r.matched(t), r.cached(t); previous != "" && (matched == 0 || matched > cached+vllmPage || cached > matched+vllmPage) {
			t.Errorf("a response that goes on: %d tokens matched, %d cached", matched, cached)
		}
		seen = append(seen, fmt.Sprintf("%d/%d", r.matched(t), r.cached(t)))
		previous, _ = r.doc["id"].(string)
	}
	w.note(e, "responses, continued", seen)
}

// dying stops a server as Kubernetes does, by SIGTERM, while it answers: its
// engine is gone, and its API server waits for its connections. The other server
// goes on with what it answered.
func (w *vllmWorld) dying(t *testing.T) {
	for _, e := range w.engines {
		select {
		case <-e.done:
			e.start(t)
			e.waitHealthy(t)
		default:
		}
	}
	p := w.peers[0]
	eventually(t, "both servers are up", func() bool { return p.named("open").State == "up" && p.named("closed").State == "up" })
	raw, _ := json.Marshal(object{"model": "tiny", "prompt": w.text(30), "max_tokens": 3000, "temperature": 0, "ignore_eos": true, "stream": true})
	var stopped, last time.Time
	var gap time.Duration // the longest without a byte since
	c := follow(t, p.url(), "/v1/completions", string(raw), nil, func(c *continued) {
		if now := time.Now(); !stopped.IsZero() {
			gap, last = max(gap, now.Sub(last)), now
		}
		if len(c.pieces) != 3 {
			return
		}
		for _, e := range w.engines {
			if e.name == c.replica {
				stopped = time.Now()
				last = stopped
				_ = syscall.Kill(e.cmd.Process.Pid, syscall.SIGTERM)
			}
		}
	})
	if c.err != nil || c.finish != "length" || !c.done {
		t.Errorf("at %s, which was stopped: finish %q, done %v, %v", c.replica, c.finish, c.done, c.err)
	}
	w.note(&vllm{name: c.replica}, "a stream whose server is stopped", []string{fmt.Sprintf("whole %.1f s later, silent for %.1f s", time.Since(stopped).Seconds(), gap.Seconds())})
}

// ranks: a server of two data-parallel ranks heeds the rank of a completion and
// picks that of a response itself.
func (w *vllmWorld) ranks(t *testing.T) {
	for _, e := range w.engines {
		e.kill() // the memory is needed
	}
	e := &vllm{
		name: "ranks", port: 21110, folder: w.open.folder, flags: []string{"--data-parallel-size", "2"}, env: []string{"VLLM_ENABLE_V1_MULTIPROCESSING=1"},
	}
	e.start(t)
	e.waitHealthy(t)
	p := launch(t, append([]string{
		"serve", "--insecure-mesh", "--drain.delay", "100ms",
		"--replicas", fmt.Sprintf("[{name: ranks, url: %q, events: %q, replay: %q, ranks: 2}]", e.url(), e.events(), e.replay()),
	}, anyPorts...)...)
	eventually(t, "both ranks are followed", func() bool {
		return p.named("ranks").Stream.State == "ok" && p.named("ranks/1").Stream.State == "ok" || p.counted("banyan_events_total") > 0
	})
	var chats, responses []string
	for range 8 {
		chat := w.chat(say("user", w.text(40)))
		sendPrompt(t, p.url()+"/v1/chat/completions", chat)
		eventually(t, "the rank says what it holds", func() bool {
			r := sendPrompt(t, p.url()+"/v1/chat/completions", chat)
			return r.matched(t) == r.cached(t) && r.cached(t) > 0
		})
		r := sendPrompt(t, p.url()+"/v1/chat/completions", chat)
		if r.matched(t) != r.cached(t) || r.cached(t) == 0 {
			t.Errorf("chat: %d tokens matched, %d cached", r.matched(t), r.cached(t))
		}
		chats = append(chats, fmt.Sprintf("%d/%d", r.matched(t), r.cached(t)))
		response := object{"model": "tiny", "max_output_tokens": 4, "instructions": w.text(40), "input": "Hello."}
		sendPrompt(t, p.url()+"/v1/responses", response)
		if r = sendPrompt(t, p.url()+"/v1/responses", response); r.matched(t) != 0 {
			t.Errorf("responses: %d tokens are credited to %s, %d were cached", r.matched(t), r.replica(), r.cached(t))
		}
		responses = append(responses, fmt.Sprintf("%d/%d", r.matched(t), r.cached(t)))
	}
	w.note(e, "chat, 2 ranks", chats)
	w.note(e, "responses, 2 ranks", responses)
}
