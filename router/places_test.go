package router

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
)

// say sends the beginning of a request that the test never ends.
func say(t *testing.T, address, request string) net.Conn {
	t.Helper()
	c := dial(t, address)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	return c
}

// Who has no key, or does not go on, holds no place against who has one.
func TestStrangersHoldNoPlace(t *testing.T) {
	client, clientLine := access.NewKey("client")
	operator, operatorLine := access.NewKey("operator")
	p := bounded(t, func(c *Config) {
		c.Limits.Connections = 8
		c.Auth.KeysFile, c.Admin.KeysFile = fileOf(t, clientLine), fileOf(t, operatorLine)
	})
	public, admin := p.front.public.Addr().String(), p.front.admin.Addr().String()
	const unfinished = " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	for name, request := range map[string]string{
		"a header without its end":    "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"a body without a key":        "POST /v1/chat/completions" + unfinished,
		"a body for a health check":   "GET /healthz" + unfinished,
		"a body for no path":          "POST /nothing" + unfinished,
		"a body for an operator":      "POST /v1/replicas/r/drain" + unfinished,
		"a body that reports events":  "POST /v1/kv-events" + unfinished,
		"nothing":                     "",
		"the beginning of a TLS hail": "\x16\x03\x01",
	} {
		t.Run(name, func(t *testing.T) {
			for range 12 {
				say(t, public, request)
			}
			for range maxOperators + 12 {
				say(t, admin, request)
			}
			for _, ask := range []struct{ address, request, key string }{
				{public, "POST /v1/chat/completions", client}, {admin, "GET /v1/status", operator}, {public, "GET /readyz", ""}, {admin, "GET /readyz", ""},
			} {
				c := say(t, ask.address, fmt.Sprintf("%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
					ask.request, ask.key, len(askBody(ask.request)), askBody(ask.request)))
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Errorf("%s: %v", ask.request, err)
					continue
				}
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("%s is answered %s", ask.request, res.Status)
				}
				c.Close()
			}
		})
	}
}

func askBody(request string) string {
	if strings.HasPrefix(request, "POST") {
		return ask
	}
	return ""
}

// A balancer takes a peer out that does not answer its check. So a peer whose
// places are all in use still answers, and tells clients that it is full.
func TestAFullPeerAnswersItsHealthCheck(t *testing.T) {
	hold := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
			<-hold
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}],"choices":[{}]}`)
	}))
	t.Cleanup(engine.Close)
	p := bounded(t, func(c *Config) {
		c.Limits.Connections = 2
		c.Replicas = []fleet.Spec{{Name: "r", URL: engine.URL, Engine: "sglang", Model: "m"}}
	})
	defer close(hold)
	address := p.front.public.Addr().String()
	post := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(ask), ask)
	var streams []net.Conn
	for range 2 {
		c := say(t, address, post)
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != http.StatusOK { //nolint:bodyclose // the stream runs on
			t.Fatalf("a stream: %v, %v", res, err)
		}
		streams = append(streams, c)
	}
	for range 200 { // and strangers stand at the door
		say(t, address, "GET /readyz HTT")
	}
	for _, path := range []string{"/healthz", "/readyz", "/health", "/ping"} {
		res, err := http.ReadResponse(bufio.NewReader(say(t, address, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK || !res.Close {
			t.Errorf("%s is answered %s, and keeps its connection: %v", path, res.Status, !res.Close)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(say(t, address, post)), nil)
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(string(said), "limits.connections") {
		t.Errorf("a client is told %s %v %s", res.Status, res.Header, said)
	}
	streams[0].Close()
	wait(t, "a client has the place that became free", func() bool {
		c := say(t, address, post)
		defer c.Close()
		res, err := http.ReadResponse(bufio.NewReader(c), nil) //nolint:bodyclose // the connection is closed
		return err == nil && res.StatusCode == http.StatusOK
	})
}
