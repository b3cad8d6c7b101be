//go:build e2e

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// answering is a replica whose every n-th answer to a prompt is another's; health,
// models and events are those of a mock replica behind it.
func answering(t *testing.T, r *process, n int64, bad http.HandlerFunc) string {
	t.Helper()
	to, err := url.Parse("http://" + r.said["http"])
	if err != nil {
		t.Fatal(err)
	}
	good := httputil.NewSingleHostReverseProxy(to)
	good.FlushInterval = -1
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && strings.HasPrefix(req.URL.Path, "/v1/") && asked.Add(1)%n == 0 {
			_, _ = io.Copy(io.Discard, req.Body)
			bad(w, req)
			return
		}
		good.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func statusOf(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
	}
}

func written(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, body)
	}
}

// streamed asks for a streamed answer and reports whether it was a whole one.
func (p *process) streamed(prompt int) bool { return streamedAt("http://"+p.said["http"], prompt) }

// streamedAt is streamed at any front.
func streamedAt(front string, prompt int) bool {
	body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":4,"messages":[{"role":"user","content":"prompt %d %s"}]}`, prompt, strings.Repeat("word ", 40))
	res, err := http.Post(front+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	defer res.Body.Close()
	done := false
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		done = done || lines.Text() == "data: [DONE]"
	}
	return res.StatusCode == http.StatusOK && done && lines.Err() == nil
}

// A replica that is up and answers badly gets less, is left out, and is told; so
// are requests that fail at all replicas. Of two replicas the first is the bad one.
func TestReplicasThatAnswerBadly(t *testing.T) {
	const chunk = "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
	for _, c := range []struct {
		name    string
		every   int64 // answer
		both    bool
		bad     http.HandlerFunc
		most    int64  // failures of 200; a slow machine tries the bad one again
		verdict string // a part of it
	}{
		{"both answer 503", 1, true, statusOf(503), 200, "requests failed in the last minute (100 %)"},
		{"one answers 500 to everything", 1, false, statusOf(500), 0, "left out"},
		{"one answers 500 to one in ten", 10, false, statusOf(500), 0, "r0 failed"},
		{"one answers 429 to everything", 1, false, statusOf(429), 0, "left out"},
		{"one answers 400 to everything", 1, false, statusOf(400), 20, "left out"},
		{"one answers 404 to everything", 1, false, statusOf(404), 20, "left out"},
		{"one answers with garbage in the stream", 1, false, written("text/event-stream", "data: garbage\n\n"), 0, "left out"},
		{"one answers with HTML", 1, false, written("text/html", "<html>busy</html>"), 0, "left out"},
		{"one answers with nothing", 1, false, written("text/event-stream", ""), 0, "left out"},
		{"one answers without the end of the stream", 1, false, written("text/event-stream", chunk), 20, "left out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r0, r1 := replicaProcess(t, "r0"), replicaProcess(t, "r1")
			urls := [2]string{answering(t, r0, c.every, c.bad), "http://" + r1.said["http"]}
			if c.both {
				urls[1] = answering(t, r1, c.every, c.bad)
			}
			p := single(t, "--replicas", fmt.Sprintf("[{name: r0, url: '%s'}, {name: r1, url: '%s'}]", urls[0], urls[1]))
			eventually(t, "both replicas are listed as up", func() bool {
				s := p.status()
				return s != nil && s.Ready && len(s.Replicas) == 2 && len(s.Replicas[0].Models) > 0 && len(s.Replicas[1].Models) > 0
			})
			var failed, next atomic.Int64
			var clients sync.WaitGroup
			for range 2 {
				clients.Go(func() {
					for i := next.Add(1); i <= 200; i = next.Add(1) {
						if !p.streamed(int(i)) {
							failed.Add(1)
						}
					}
				})
			}
			clients.Wait()
			if n := failed.Load(); n > c.most {
				t.Errorf("%d of 200 failed", n)
			}
			eventually(t, "it is told", func() bool { // a slow machine is at it for more than one time out
				text, code := p.check()
				told := code == exitFailed && strings.Contains(strings.Join(strings.Fields(text), " "), c.verdict)
				if !told {
					p.streamed(int(next.Add(1)))
				}
				return told
			})
			p.evidence(fmt.Sprintf("%s: %d of 200 failed", c.name, failed.Load()))
			p.stop()
		})
	}
}
