package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// rig is a Handler on a real listener in front of real upstream servers, and
// what it told the router.
type rig struct {
	t       *testing.T
	handler *Handler
	front   *httptest.Server
	targets []*Target

	mu      sync.Mutex
	picked  int
	done    []Result
	firsts  int
	retried []Cause
	refused []int
	calls   []*Call

	doneCh chan Result
}

func newRig(t *testing.T, change func(*Config), upstreams ...http.HandlerFunc) *rig {
	t.Helper()
	g := &rig{t: t, doneCh: make(chan Result, 1000)}
	for i, handle := range upstreams {
		server := httptest.NewServer(handle)
		t.Cleanup(server.Close)
		g.targets = append(g.targets, &Target{
			Replica: "r" + string(rune('0'+i)), URL: server.URL, Policy: "ttft", Matched: 32,
		})
	}
	cfg := Config{
		Peer: "peer-a", Pick: g.pick,
		FirstToken: func(*Target, time.Time) { g.locked(func() { g.firsts++ }) },
		Done: func(_ *Target, r Result) {
			g.locked(func() { g.done = append(g.done, r) })
			g.doneCh <- r
		},
		Retried: func(c Cause) { g.locked(func() { g.retried = append(g.retried, c) }) },
		Refused: func(s int) { g.locked(func() { g.refused = append(g.refused, s) }) },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if g.handler, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	g.front = httptest.NewServer(g.handler)
	t.Cleanup(func() {
		g.front.Close()
		g.locked(func() {
			if g.picked != len(g.done) {
				t.Errorf("I1: %d targets picked, %d done", g.picked, len(g.done))
			}
		})
	})
	return g
}

func (g *rig) locked(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// pick takes the first upstream that was not tried.
func (g *rig) pick(_ context.Context, call *Call) (*Target, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if call.Body.Model == "unknown" {
		return nil, ErrUnknownModel
	}
	g.calls = append(g.calls, call)
	for _, target := range g.targets {
		if !slices.Contains(call.Tried, target.Replica) {
			g.picked++
			return target, nil
		}
	}
	return nil, ErrNoReplica
}

// last waits for the end of the next try.
func (g *rig) last() Result {
	g.t.Helper()
	select {
	case r := <-g.doneCh:
		return r
	case <-time.After(10 * time.Second):
		g.t.Fatal("no try ended")
		return Result{}
	}
}

type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (g *rig) do(method, path, body string, header http.Header) answer {
	g.t.Helper()
	req, err := http.NewRequest(method, g.front.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Error(err)
		return answer{err: err}
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if method == http.MethodPost && header["Content-Type"] == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Error(err)
		return answer{err: err}
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(raw), err}
}

func (g *rig) chat(body string) answer {
	g.t.Helper()
	return g.do(http.MethodPost, "/v1/chat/completions", body, nil)
}

const (
	plainChat    = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	streamedChat = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`
	usageChat    = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`
)

// errorCode is error.code of an answer in the OpenAI shape.
func errorCode(t *testing.T, a answer) string {
	t.Helper()
	var shape struct {
		Error struct{ Message, Type, Code, Param string }
	}
	if err := json.Unmarshal([]byte(a.body), &shape); err != nil || shape.Error.Message == "" || shape.Error.Type == "" {
		t.Fatalf("not an OpenAI error: %d %q", a.status, a.body)
	}
	return shape.Error.Code
}

// writeChunks streams pieces, each flushed.
func writeChunks(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range pieces {
		_, _ = io.WriteString(w, p)
		_ = http.NewResponseController(w).Flush()
	}
}

// readAll lets the server see the client leave: it looks only after the body.
func readAll(r *http.Request) string {
	raw, _ := io.ReadAll(r.Body)
	return string(raw)
}
