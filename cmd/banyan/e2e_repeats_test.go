//go:build e2e

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repeating is a replica that answers every prompt, and every question for its
// tokens, with a repetition of the prompt where an answer has other words.
func repeating(t *testing.T, events string, answer func(w http.ResponseWriter, prompt string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m","owned_by":"vllm"}]}`)
		case r.URL.Path == "/kv_event_sources":
			fmt.Fprintf(w, `{"0":{"endpoint":%q}}`, events)
		case r.Method == http.MethodPost:
			_, _ = io.Copy(io.Discard, r.Body)
			answer(w, "MARKPROMPT tells that a patient has MARKPROMPT")
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// raw answers with these bytes instead of HTTP.
func raw(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, text)
	conn.Close()
}

// rude publishes events to nobody: it ends each handshake with an error in its own
// words.
func rude(t *testing.T, says string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			greeting := make([]byte, 64)
			greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
			copy(greeting[12:], "NULL")
			body := append([]byte("\x05ERROR"), append([]byte{byte(len(says))}, says...)...)
			_, _ = conn.Write(append(greeting, append([]byte{4, byte(len(body))}, body...)...))
			_, _ = io.CopyN(io.Discard, conn, 64)
			conn.Close()
		}
	}()
	return "tcp://" + l.Addr().String()
}

// An engine whose answers repeat the prompt, in whatever part of them, makes no
// log, status, metric, record or trace repeat it.
func TestNoWordOfAnEnginesAnswerIsTold(t *testing.T) {
	refused := func(code int, body string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, prompt string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, body, prompt)
		}
	}
	answered := func(format string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, prompt string) { raw(w, fmt.Sprintf(format, prompt)) }
	}
	ways := map[string]func(http.ResponseWriter, string){
		"400, message of OpenAI":   refused(400, `{"error":{"message":"%s","code":400}}`),
		"403, message":             refused(403, `{"message":"%s --enable-scale-out"}`),
		"404, detail":              refused(404, `{"detail":"%s","type":"NotFoundError"}`),
		"500, message":             refused(500, `{"error":{"message":"%s"}}`),
		"200 of another kind":      refused(200, `{"token_ids":"%[1]s","count":"%[1]s","choices":"%[1]s"}`),
		"no status":                answered("%s\r\n\r\n"),
		"a strange version":        answered("HTTP/%s 200 OK\r\n\r\n"),
		"a strange code":           answered("HTTP/1.1 %s\r\n\r\n"),
		"a strange header":         answered("HTTP/1.1 200 OK\r\n%s\r\n\r\n"),
		"a strange length":         answered("HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n"),
		"a strange encoding":       answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n"),
		"a strange chunk":          answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n"),
		"a finish reason":          answered("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"%s\"}]}\n\ndata: [DONE]\n\n"),
		"an error inside a stream": answered("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"error\":{\"message\":\"%s\"}}\n\n"),
	}
	events := rude(t, "MARKPROMPT tells that a patient has MARKPROMPT")
	var replicas []string
	for name, way := range ways {
		replicas = append(replicas, fmt.Sprintf("- {name: %q, url: %q, model: %q}", name, repeating(t, events, way), "m"))
	}
	traces, accessLog := newSink(t), filepath.Join(t.TempDir(), "access.log")
	path := writeFile(t, fmt.Sprintf("mesh: {insecure: true}\nlog: {level: debug}\naccess_log: {mode: all, path: %q}\ntracing: {endpoint: %q}\npolicy: round_robin\ndrain: {delay: 100ms, timeout: 5s}\nreplicas:\n%s\n",
		accessLog, traces.URL, strings.Join(replicas, "\n")))
	p := launch(t, "serve", "--config", path, "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0")
	eventually(t, "all replicas are up, and their events are asked for", func() bool {
		s := p.status()
		for i := 0; s != nil && i < len(s.Replicas); i++ {
			if s.Replicas[i].Engine != "vllm" || s.Replicas[i].Stream.State != "connecting" || s.Replicas[i].Stream.Detail == "" {
				return false
			}
		}
		return s != nil && s.Ready && len(s.Replicas) == len(ways)
	})
	for range 4 * len(ways) {
		p.streamed(1)
		for _, path := range []string{"/v1/completions", "/v1/messages", "/v1/responses"} {
			res, err := http.Post("http://"+p.said["http"]+path, "application/json", strings.NewReader(
				`{"model":"m","max_tokens":4,"prompt":"Hello.","input":"Hello.","messages":[{"role":"user","content":"Hello."}]}`))
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
	}
	told := map[string]string{}
	for _, path := range []string{"/v1/status", "/metrics", "/v1/decisions?n=100", "/", "/v1/requests"} {
		told[path] = adminGet(t, "http://"+p.said["admin"]+path)
	}
	told["banyan status --check"], _ = p.check()
	told["banyan why"], _ = said(t, "why", "--peer", p.said["admin"])
	eventually(t, "traces arrive", func() bool { return strings.Contains(traces.got(), "banyan.replica") })
	p.stop()
	logged, err := os.ReadFile(accessLog)
	if err != nil {
		t.Fatal(err)
	}
	told["log"], told["traces"], told["access log"] = p.errs.String(), traces.got(), string(logged)
	for where, text := range told {
		if len(text) < 100 {
			t.Errorf("%s says next to nothing: %q", where, text)
		}
		for from := 0; ; {
			i := strings.Index(text[from:], "MARKPROMPT")
			if i < 0 {
				break
			}
			from += i
			t.Errorf("%s repeats the prompt: …%s…", where, text[max(0, from-160):min(len(text), from+60)])
			from += len("MARKPROMPT")
		}
	}
}
