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
	"time"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
)

// bounded is a peer with small limits and one replica that answers at once.
func bounded(t *testing.T, change func(*Config)) *Peer {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}],"choices":[{}]}`)
	}))
	t.Cleanup(engine.Close)
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "r", URL: engine.URL, Engine: "sglang", Model: "m"}}
		c.Tokenizer = "text"
		change(c)
	})
	wait(t, "the peer is ready", func() bool { ready, _ := p.readiness.ready(); return ready })
	return p
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // of the test
	return c
}

const ask = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

func askPeer(t *testing.T, p *Peer) int {
	t.Helper()
	res, err := http.Post("http://"+p.front.public.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// A client that dribbles its header is cut off, on both listeners' terms.
func TestSlowHeadersAreCutOff(t *testing.T) {
	p := bounded(t, func(c *Config) { c.Limits.HeaderTime = 2 * time.Second })
	c := dial(t, p.front.public.Addr().String())
	_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection stays open: %v", err)
	}
	if code := askPeer(t, p); code != http.StatusOK {
		t.Errorf("another client gets %d", code)
	}
}

// Clients that dribble their bodies hold neither the place of others nor their
// connection for ever.
func TestSlowBodiesHoldNoPlace(t *testing.T) {
	p := bounded(t, func(c *Config) {
		c.Limits.Concurrency, c.Limits.Queue, c.Limits.BodyTime = 1, 1, 2*time.Second
	})
	var slow []net.Conn
	for range 8 {
		c := dial(t, p.front.public.Addr().String())
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		slow = append(slow, c)
	}
	if code := askPeer(t, p); code != http.StatusOK {
		t.Errorf("beside slow bodies a client gets %d", code)
	}
	for _, c := range slow {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusBadRequest || !res.Close {
			t.Errorf("a slow body ends with %d, close %v", res.StatusCode, res.Close)
		}
		res.Body.Close()
	}
}

func TestSizesAreBounded(t *testing.T) {
	p := bounded(t, func(c *Config) { c.Limits.BodyBytes = 4096 })
	public, admin := p.front.public.Addr().String(), p.front.admin.Addr().String()
	long := strings.Repeat("a", maxHeaderBytes+8<<10)
	many := strings.Repeat("X-A: b\r\n", (maxHeaderBytes+8<<10)/8)
	const post = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for name, tc := range map[string]struct {
		address, request string
		want             int
	}{
		"one long header":        {public, post + "X-Long: " + long + "\r\n\r\n", 431},
		"many headers":           {public, post + many + "\r\n", 431},
		"a long target":          {public, "GET /v1/" + long + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
		"admin: a long header":   {admin, "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + long + "\r\n\r\n", 431},
		"a long body, announced": {public, post + "Content-Length: 1000000000000\r\n\r\n", 413},
		"a long body, chunked":   {public, post + "Transfer-Encoding: chunked\r\n\r\n2000\r\n" + strings.Repeat(" ", 0x2000) + "\r\n0\r\n\r\n", 413},
		"two lengths":            {public, post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
		"length and chunks":      {public, post + "Content-Length: 4\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{}", 501},
		"a negative length":      {public, post + "Content-Length: -1\r\n\r\n", 400},
		"no host":                {public, "GET /v1/models HTTP/1.1\r\n\r\n", 400},
	} {
		c := dial(t, tc.address)
		go func() { _, _ = io.WriteString(c, tc.request) }()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != tc.want {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, tc.want)
		}
	}
	if code := askPeer(t, p); code != http.StatusOK {
		t.Errorf("after all that a client gets %d", code)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	p := bounded(t, func(c *Config) { c.Limits.Connections = 4 })
	http.DefaultClient.CloseIdleConnections()
	var open []net.Conn
	for range 4 {
		c := dial(t, p.front.public.Addr().String())
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		open = append(open, c)
	}
	over := dial(t, p.front.public.Addr().String())
	_, _ = io.WriteString(over, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(over), nil); err != nil {
		t.Errorf("a health check beside idle connections: %v", err)
	}
	if n, err := open[0].Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("five connections are open")
	}
	if n := metrics.Count(p.metrics.Refused.WithLabelValues("http", access.GaveWay)); n == 0 {
		t.Error("the one that gave its place is not counted")
	}
	open[0].Close()
	wait(t, "a place is free again", func() bool {
		c, err := net.Dial("tcp", p.front.public.Addr().String())
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err = http.ReadResponse(bufio.NewReader(c), nil) //nolint:bodyclose // the connection is closed
		return err == nil
	})
}
