//go:build e2e && e2e_vllm && linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

// traffic is a mix of prompts that fills caches: a few heads that many share,
// tails of their own.
type traffic struct {
	rand  *rand.Rand
	heads [][]int
}

func (w *vllmWorld) newTraffic() *traffic {
	m := &traffic{rand: rand.New(rand.NewPCG(5, 7))}
	for range 5 {
		m.heads = append(m.heads, w.ids(10*vllmPage))
	}
	return m
}

func (m *traffic) body() object {
	ids := slices.Clone(m.heads[m.rand.IntN(len(m.heads))])
	for range 40 + m.rand.IntN(860) {
		ids = append(ids, 300+m.rand.IntN(7000))
	}
	return object{"model": "tiny", "prompt": ids, "max_tokens": 1 + m.rand.IntN(40), "ignore_eos": true}
}

// send sends n prompts to the bases in turn, four at a time; all must be answered.
func (m *traffic) send(t *testing.T, n int, bases ...string) {
	t.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range n {
		body := m.body()
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if r, err := try(bases[i%len(bases)]+"/v1/completions", body); err != nil || r != http.StatusOK {
				t.Errorf("request %d: status %d, %v", i, r, err)
			}
		})
	}
	wg.Wait()
}

// try is a request from any goroutine.
func try(url string, body object) (status int, err error) {
	raw, _ := json.Marshal(body)
	res, err := http.Post(url, "application/json", bytes.NewReader(raw))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func (w *vllmWorld) urls() (out []string) {
	for _, p := range w.peers {
		out = append(out, p.url())
	}
	return out
}

// facts holds that every peer knows what each engine holds, by the engine's own
// stream, whatever happens to caches and peers.
func (w *vllmWorld) facts(t *testing.T) {
	m := w.newTraffic()
	for range 2 {
		before := map[string]int{}
		for _, e := range w.engines {
			before[e.name] = e.fold.held(t).Kinds["BlockRemoved"]
		}
		m.send(t, 30, w.urls()...)
		for _, e := range w.engines {
			m.send(t, 15, e.url()) // past the router
		}
		w.settle(t, "after evictions")
		for _, e := range w.engines {
			if e.fold.held(t).Kinds["BlockRemoved"] == before[e.name] {
				t.Errorf("%s evicted nothing: this shows nothing", e.name)
			}
		}
	}
	w.probe(t)

	late := launch(t, append([]string{"serve", "--config", writeFile(t, w.config()), "--mesh.name", "late", "--mesh.join", w.peers[0].said["mesh"]}, anyPorts...)...)
	all := w.peers
	w.peers = append(w.peers[:len(w.peers):len(w.peers)], late)
	w.settle(t, "after a peer came late")
	w.probe(t)

	for _, e := range w.engines {
		e.reset(t)
	}
	m.send(t, 2, w.engines[0].url(), w.engines[1].url())
	w.settle(t, "after a reset")
	for _, e := range w.engines {
		if h := e.fold.held(t); h.Kinds["AllBlocksCleared"] == 0 || h.Held == 0 || h.Held > vllmPages/4 {
			t.Errorf("%s after a reset: %+v", e.name, h)
		}
	}
	m.send(t, 20, w.urls()...)
	w.settle(t, "after more traffic")
	w.probe(t)
	w.peers = all
	late.stop()
}

// anyPorts are flags that let the kernel choose.
var anyPorts = []string{
	"--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--limits.tokenize", tokenizeLimit.String(),
}

// probe asks every peer for prompts of which an engine holds some: the peer must
// send them to a holder and foretell what is found.
func (w *vllmWorld) probe(t *testing.T) {
	t.Helper()
	for i := range 2 {
		for _, e := range w.engines {
			for _, p := range w.peers {
				w.settle(t, "before a probe")
				c := e.fold.chains(t, 1)[0]
				c.Tokens = append(c.Tokens, 301, 302, 303, 304, 305)
				r := sendPrompt(t, p.url()+"/v1/completions", object{"model": "tiny", "prompt": c.Tokens, "max_tokens": 1})
				if matched, cached := r.matched(t), r.cached(t); matched != cached || cached < c.Held*vllmPage {
					t.Errorf("probe %d: %s holds %d tokens; sent to %s for %d matched tokens, %d were cached there",
						i, e.name, c.Held*vllmPage, r.replica(), matched, cached)
				}
			}
		}
	}
}

// disconnects holds that an engine stops working for clients that went away.
func (w *vllmWorld) disconnects(t *testing.T) {
	const clients, length = 8, 6000
	generated := func() (sum float64) {
		for _, e := range w.engines {
			sum += e.metric(t, "vllm:generation_tokens_total")
		}
		return sum
	}
	running := func() (sum float64) {
		for _, e := range w.engines {
			sum += e.metric(t, "vllm:num_requests_running") + e.metric(t, "vllm:num_requests_waiting")
		}
		return sum
	}
	before := generated()
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range clients {
		path := []string{"/v1/completions", "/v1/chat/completions"}[i/2%2]
		body := object{"model": "tiny", "max_tokens": length, "ignore_eos": true, "stream": i%2 == 0}
		if path == "/v1/completions" {
			body["prompt"] = w.ids(100)
		} else {
			body["messages"] = []object{say("user", w.text(10))}
		}
		raw, _ := json.Marshal(body)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.peers[i/4%2].url()+path, bytes.NewReader(raw))
		req.Header.Set("Content-Type", "application/json")
		wg.Go(func() {
			if res, err := http.DefaultClient.Do(req); err == nil {
				n, _ := io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if ctx.Err() == nil {
					t.Errorf("client %d got all of its %d bytes: status %d", i, n, res.StatusCode)
				}
			}
		})
	}
	eventually(t, "all requests run", func() bool { return running() == clients })
	leave()
	wg.Wait()
	eventually(t, "no request runs any more", func() bool { return running() == 0 })
	if n := generated() - before; n > clients*length/2 {
		t.Errorf("the engines made %.0f tokens for clients that had gone, of the %d that these had asked for", n, clients*length)
	}
}

// restart holds that nothing is believed of a server that was killed, and that
// the one in its place is known as well as it was.
func (w *vllmWorld) restart(t *testing.T) {
	e := w.closed
	body := object{"model": "tiny", "prompt": w.ids(333), "max_tokens": 4}
	sendPrompt(t, e.url()+"/v1/completions", body)
	w.settle(t, "before the kill")

	m := w.newTraffic()
	var wg sync.WaitGroup
	wg.Go(func() { m.send(t, 12, w.urls()...) })
	e.kill()
	wg.Wait()
	everywhere(t, w.peers, e.name, "is down", func(r console.Replica) bool { return r.State != "up" })
	e.start(w.t)
	e.waitHealthy(t)
	e.fold = newFold(w.t, e.folder, e.replay())
	everywhere(t, w.peers, e.name, "is followed again", func(r console.Replica) bool { return r.State == "up" && r.Stream.State == "ok" })
	for _, p := range w.peers {
		r := sendPrompt(t, p.url()+"/v1/completions", w.with(body, "max_tokens", 1))
		if r.matched(t) != r.cached(t) {
			t.Errorf("after a restart: sent to %s for %d matched tokens, %d were cached there", r.replica(), r.matched(t), r.cached(t))
		}
	}
	m.send(t, 30, w.urls()...)
	m.send(t, 15, e.url())
	w.settle(t, "after a restart and traffic")
	w.probe(t)
}
