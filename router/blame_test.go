package router

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/banyan-llm/banyan/router/fleet"
)

// mixedTries counts what came of bodies with "mixed" in them, at all engines:
// every second try is refused and the others are reset.
var mixedTries atomic.Int64

// fragile is an engine on a bare socket that a body with "kill" in it makes
// answer 413 into the middle of the upload and reset the connection, or only
// reset it; broken does so whatever it is sent.
func fragile(t *testing.T, broken *atomic.Bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			start := make([]byte, min(max(r.ContentLength, 0), 64))
			_, _ = io.ReadFull(r.Body, start)
			if strings.Contains(string(start), "mixed") && mixedTries.Add(1)%2 == 0 {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			if kill := strings.Contains(string(start), "kill"); r.Method == http.MethodPost && (kill || broken != nil && broken.Load()) {
				if strings.Contains(string(start), "413") {
					_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				}
				_ = c.(*net.TCPConn).SetLinger(0)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			answer := `{"data":[{"id":"m"}],"choices":[{}]}`
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return "http://" + l.Addr().String()
}

func fragilePeer(t *testing.T, broken ...*atomic.Bool) *Peer {
	t.Helper()
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Policy = "round_robin"
		for i, b := range broken {
			c.Replicas = append(c.Replicas, fleet.Spec{Name: fmt.Sprintf("f%d", i), URL: fragile(t, b), Engine: "vllm", Model: "m"})
		}
	})
	wait(t, "the peer serves", func() bool { ok, _ := p.readiness.ready(); return ok && allUp(p) })
	return p
}

func allUp(p *Peer) bool {
	for _, r := range p.fleet.List() {
		if !r.Up() {
			return false
		}
	}
	return true
}

// A body that every replica breaks on is the client's doing: no breaker opens,
// however often it is sent, and others are served meanwhile.
func TestAClientCannotOpenBreakers(t *testing.T) {
	p := fragilePeer(t, nil, nil, nil)
	big := strings.Repeat("x", 2<<20)
	for i := range 300 { // more than the budget of retries lets through
		body := `{"kill":"now","model":"m","messages":[]}`
		if i%30 == 0 {
			body = `{"kill":"413","model":"m","messages":[],"a":"` + big + `"}`
		}
		if status, _, text := request(t, p, http.MethodPost, "/v1/chat/completions", body); status == 200 {
			t.Fatalf("%d %s", status, text)
		}
		if !allUp(p) {
			t.Fatalf("a replica is down after %d requests of one client", i+1)
		}
	}
	if status, _, text := request(t, p, http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[]}`); status != 200 {
		t.Errorf("another client: %d %s", status, text)
	}
}

// A body that breaks one engine and is refused by the next is the client's too.
func TestARefusalElsewhereBlamesNobody(t *testing.T) {
	p := fragilePeer(t, nil, nil) // in turn: always the same one is reset
	for i := range 30 {
		status, _, text := request(t, p, http.MethodPost, "/v1/chat/completions", `{"kill":"mixed","model":"m","messages":[]}`)
		if status != http.StatusRequestEntityTooLarge {
			t.Fatalf("%d %s", status, text)
		}
		if !allUp(p) {
			t.Fatalf("a replica is down after %d requests of one client", i+1)
		}
	}
}

// A replica that fails what another one answers is found out, alone or one of
// several; and so is one that nobody can stand in for.
func TestABrokenReplicaIsFoundOut(t *testing.T) {
	for name, bad := range map[string][]bool{"one of three": {true, false, false}, "two of three": {true, true, false}, "the only one": {true}} {
		var broken []*atomic.Bool
		for range bad {
			broken = append(broken, &atomic.Bool{})
		}
		p := fragilePeer(t, broken...)
		for i, b := range bad {
			broken[i].Store(b)
		}
		wait(t, name+": the broken replicas are down", func() bool {
			status, _, _ := request(t, p, http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[]}`)
			if status != 200 && len(bad) > 1 {
				t.Errorf("%s: %d", name, status)
			}
			for i, r := range p.fleet.List() {
				if bad[i] && r.Up() {
					return false
				}
			}
			return true
		})
		for i, r := range p.fleet.List() {
			if !bad[i] && !r.Up() {
				t.Errorf("%s: %s is down too", name, r.Name())
			}
		}
	}
}
