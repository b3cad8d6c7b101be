package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Every way to ask the wrong place says what to do next.
func TestStatusSaysWhatToDoNext(t *testing.T) {
	serve := func(code int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for _, c := range []struct {
		what, peer string
		args       []string
		says       string
	}{
		{"nobody listens", closed.Listener.Addr().String(), nil, "is a peer running there? --peer names its admin.listen address"},
		{"no such host", "no-such-host.invalid:8081", nil, "--peer names its admin.listen address"},
		{"the OpenAI port", serve(404, `{"error":{"message":"no such path","type":"not_found"}}`), nil, "404 Not Found: no such path ("},
		{"the OpenAI port, no replica up", serve(503, `{"error":{"message":"no replica can take the request now","type":"unavailable"}}`), nil, "is not an admin listener"},
		{"the OpenAI port asks for a key", serve(401, `{"error":{"message":"wrong key","type":"invalid_request_error"}}`), nil, "--peer names admin.listen"},
		{"an admin listener that asks", serve(401, `{"error":{"message":"this listener asks for a key","type":"admin_error"}}`), nil, "asks for a key: --admin-key-file"},
		{"an admin listener that fails", serve(500, `{"error":{"message":"boom","type":"admin_error"}}`), nil, "500 Internal Server Error: boom"},
		{"an admin listener that asks for a certificate", serve(401, `{"error":{"message":"no","type":"invalid_request_error","code":"no_client_certificate"}}`), nil, "asks for a client certificate: --cert and --cert-key"},
		{"a proxy", serve(502, "<html>Bad Gateway</html>"), nil, "--peer names admin.listen"},
		{"a URL without a port", "http://no-such-host.invalid/", nil, "--peer names no port: admin.listen has 8081 by default"},
		{"another service", serve(200, "<html>hello</html>"), nil, "does not answer like a banyan peer: --peer names"},
		{"another JSON service", serve(200, `{"status":"ok"}`), nil, "does not answer like a banyan peer: --peer names"},
		{"no key", serve(401, "no"), nil, "asks for a key: --admin-key-file"},
		{"a wrong key", serve(401, "no"), []string{"--admin-key", "x"}, "does not know this admin key"},
		{"TLS", secure.Listener.Addr().String(), nil, "the peer speaks TLS: --peer https://"},
		{"unknown authority", secure.URL, nil, "--ca names the authority"},
	} {
		var out, errs bytes.Buffer
		err := runStatus(t.Context(), append([]string{"--peer", c.peer}, c.args...), &out, &errs)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || out.Len() > 0 {
			t.Errorf("%s: %v, want %q; printed %q", c.what, err, c.says, out.String())
		}
	}
}

// A host alone is asked at the port that admin listeners have by default.
func TestAPeerWithoutAPort(t *testing.T) {
	for peer, want := range map[string]string{
		"127.0.0.1": "http://127.0.0.1:8081", "p1": "http://p1:8081", "::1": "http://[::1]:8081", "[::1]": "http://[::1]:8081", "p1/": "http://p1:8081",
		"127.0.0.1:9": "http://127.0.0.1:9", "[::1]:9": "http://[::1]:9", "http://p1": "http://p1", "https://banyan.example/admin/": "https://banyan.example/admin",
	} {
		if got := adminURL(peer); got != want {
			t.Errorf("%s is asked at %s, want %s", peer, got, want)
		}
	}
}

// Whoever ends a watch is told nothing, whatever was asked at that moment.
func TestAWatchEndsQuietly(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stop()
		<-r.Context().Done()
	}))
	defer s.Close()
	var out, errs bytes.Buffer
	if err := runStatus(ctx, []string{"--peer", s.URL, "--watch"}, &out, &errs); err != nil || errs.Len() > 0 || out.Len() > 0 {
		t.Errorf("%v, stdout %q, stderr %q", err, out.String(), errs.String())
	}
}

func TestStatusPipedIsPlain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"peer_id":"1","name":"a","label":"pool","ok":false,"ready":true,"replicas":[{"name":"r0","state":"down","reason":"refused"}],"problems":[{"text":"r0 is down","help":"wait"}]}`)
	}))
	defer s.Close()
	run := func(args ...string) (string, error) {
		var out, errs bytes.Buffer
		err := runStatus(t.Context(), append([]string{"--peer", s.URL}, args...), &out, &errs)
		return out.String(), err
	}
	if text, err := run(); err != nil || !strings.Contains(text, "TROUBLE") || strings.Contains(text, "\x1b") {
		t.Errorf("%v: %q", err, text)
	}
	if text, err := run("--check"); err == nil || !strings.Contains(text, "× 1 of 1 replicas is down or unusable: r0") {
		t.Errorf("--check: %v: %q", err, text)
	}
	if text, err := run("--check", "--wait", time.Millisecond.String(), "--json"); err == nil || !strings.HasPrefix(text, "{") {
		t.Errorf("--check --json: %v: %q", err, text)
	}
}
