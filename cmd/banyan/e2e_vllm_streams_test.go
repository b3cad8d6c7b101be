//go:build e2e && e2e_vllm && linux

package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
)

// streams kills a server, by SIGKILL, in the middle of its answers: the other one
// goes on with them, and at temperature 0 the client reads the very text that a
// server writes that nothing happens to.
func (w *vllmWorld) streams(t *testing.T) {
	const tokens = 1000
	greedy := object{"model": "tiny", "max_tokens": tokens, "temperature": 0, "ignore_eos": true}
	type asked struct {
		path, text string
		body       object
		got        *continued
	}
	chat := asked{path: "/v1/chat/completions", body: w.with(greedy, "messages", []object{say("system", "Be brief."), say("user", w.text(30))})}
	plain := asked{path: "/v1/completions", body: w.with(greedy, "prompt", w.text(30))}
	stream := func(a *asked, url string, header http.Header, at func(*continued)) *continued {
		raw, _ := json.Marshal(w.with(a.body, "stream", true, "stream_options", object{"include_usage": true}))
		return follow(t, url, a.path, string(raw), header, at)
	}
	for _, a := range []*asked{&chat, &plain} {
		for _, e := range w.engines {
			text := stream(a, e.url(), nil, nil).text()
			if a.text == "" {
				a.text = text
			}
			if text != a.text {
				t.Fatalf("%s: the servers themselves do not agree: %q, %q", a.path, a.text, text)
			}
		}
	}
	// By turns: the first server gets a chat and a completion, the second a chat.
	p, header := w.peers[0], http.Header{"X-Banyan-Policy": {"round_robin"}}
	var all sync.WaitGroup
	three, killed := []*asked{{path: chat.path, body: chat.body, text: chat.text}, {path: chat.path, body: chat.body, text: chat.text}, &plain}, ""
	for i, a := range three {
		begun := make(chan struct{})
		all.Go(func() {
			a.got = stream(a, p.url(), header, func(c *continued) {
				if len(c.pieces) != 1 {
					return
				}
				if i == len(three)-1 {
					killed = c.replica
					for _, e := range w.engines {
						if e.name == killed {
							e.kill()
						}
					}
				}
				close(begun)
			})
		})
		<-begun
	}
	all.Wait()
	lost := 0
	for _, a := range three {
		c := a.got
		if c.replica == killed {
			lost++
		}
		if c.err != nil || c.text() != a.text || c.finish != "length" || c.usage.Completion != tokens || len(c.ids) != 1 || !c.done {
			t.Errorf("%s at %s, %s was killed: %v, finish %q, %d tokens, %d ids, text\n%q, want\n%q", a.path, c.replica, killed, c.err, c.finish, c.usage.Completion, len(c.ids), c.text(), a.text)
		}
	}
	if n := p.counted(`banyan_lost_streams_total{outcome="continued"}`); lost != 2 || n != lost {
		t.Errorf("%d streams were at the server that was killed, %d are counted as continued", lost, n)
	}
	t.Logf("%d streams of %d went on elsewhere, their text as if nothing had happened", lost, len(three))
}
