//go:build e2e

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A peer whose connections are all in use turns newcomers away, and says so.
func TestFullPlacesAreTold(t *testing.T) {
	let := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/chat") {
			_, _ = io.Copy(io.Discard, r.Body)
			<-let
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[{"id":"m","object":"model"}],"choices":[{}]}`)
	}))
	t.Cleanup(engine.Close)
	t.Cleanup(func() { close(let) }) // before it is closed
	p := single(t, "--limits.connections", "2", "--tokenizer", "text", "--replicas", fmt.Sprintf("[{name: r0, url: '%s', model: m}]", engine.URL))
	eventually(t, "the peer is ready", func() bool { s := p.status(); return s != nil && s.Ready && s.Requests.Recent != nil })
	const body = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	ask := func() net.Conn {
		conn, err := net.Dial("tcp", p.said["http"])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return conn
	}
	ask()
	ask()
	eventually(t, "both are being answered", func() bool { s := p.status(); return s != nil && s.Replicas[0].Inflight == 2 })
	for range 5 {
		res, err := http.ReadResponse(bufio.NewReader(ask()), nil)
		if err != nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a newcomer gets %v, %v", res, err)
		}
	}
	eventually(t, "it is told", func() bool {
		text, code := p.check()
		return code == exitFailed && strings.Contains(strings.Join(strings.Fields(text), " "), "connections of clients were turned away in the last minute: limits.connections are all in use")
	})
	p.evidence("limits.connections are in use")
}
