package router

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
)

// call asks a running peer's listener and reads until the answer holds
// something, or ends: some have no end.
func call(t *testing.T, method, url, token, body, holds string) (status int, kind, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for part := make([]byte, 4096); holds == "" || !strings.Contains(text, holds); {
		n, err := res.Body.Read(part)
		if text += string(part[:n]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode, res.Header.Get("Content-Type"), text
}

// TestPromisedPathsAnswer: both listeners, as scripts know them.
func TestPromisedPathsAnswer(t *testing.T) {
	p := bounded(t, func(*Config) {})
	admin, public := "http://"+p.front.admin.Addr().String(), "http://"+p.front.public.Addr().String()
	for _, c := range []struct{ method, url, kind, holds string }{
		{"GET", admin + "/metrics", "text/plain", "# HELP"},
		{"GET", admin + "/v1/status", "application/json", `"peer_id"`},
		{"GET", admin + "/v1/watch", "text/event-stream", "retry:"},
		{"GET", admin + "/v1/decisions?n=3", "application/json", "["},
		{"GET", admin + "/v1/tree?top=3", "application/json", `"prefixes"`},
		{"POST", admin + "/v1/replicas/r/drain", "application/json", `"drain"`},
		{"POST", admin + "/v1/replicas/r/undrain", "application/json", `"undrain"`},
		{"GET", admin + "/", "text/html", "<"},
		{"GET", admin + "/request", "text/html", "no request that failed"},
		{"GET", admin + "/runbook", "text/html", "Troubleshooting"},
		{"GET", admin + "/v1/requests?n=3", "application/json", `"requests"`},
		{"GET", admin + "/debug/pprof/", "text/html", "goroutine"},
		{"GET", public + "/healthz", "text/plain", "ok"},
		{"GET", public + "/readyz", "text/plain", "ready"},
		{"GET", public + "/v1/models", "application/json", `"m"`},
	} {
		status, kind, text := call(t, c.method, c.url, "", "", c.holds)
		if status != http.StatusOK || !strings.HasPrefix(kind, c.kind) || !strings.Contains(text, c.holds) {
			t.Errorf("%s %s: %d %s %.300s", c.method, c.url, status, kind, text)
		}
	}
}

// TestPathsThatAreNotClean: an OpenAI client reads errors, not the redirects in
// HTML of a mux.
func TestPathsThatAreNotClean(t *testing.T) {
	p := bounded(t, func(*Config) {})
	for _, target := range []string{"//v1/models", "/v1/../metrics", "/v1/./models", "/healthz/", "*"} {
		c := dial(t, p.front.public.Addr().String())
		_, _ = io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound || res.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(string(body), `{"error":{"message":"`) {
			t.Errorf("%s: %d %s %.200s", target, res.StatusCode, res.Header.Get("Content-Type"), body)
		}
	}
}

// TestAPolicyOfTheClients: a name that is none is told where names count.
func TestAPolicyOfTheClients(t *testing.T) {
	for _, c := range []struct {
		allowed    bool
		asks, gets string
		status     int
	}{
		{true, "random", "random", http.StatusOK},
		{true, "", "ttft", http.StatusOK},
		{true, "tttf", "", http.StatusBadRequest},
		{false, "random", "ttft", http.StatusOK},
		{false, "tttf", "ttft", http.StatusOK},
	} {
		p := bounded(t, func(cfg *Config) { cfg.HTTP.PolicyOverride = c.allowed })
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+p.front.public.Addr().String()+"/v1/completions", strings.NewReader(`{"model":"m","prompt":"x"}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Banyan-Policy", c.asks)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status || res.Header.Get("X-Banyan-Policy") != c.gets || c.status != http.StatusOK && !strings.Contains(string(text), "names none of random, ") {
			t.Errorf("%+v: %d by %q: %s", c, res.StatusCode, res.Header.Get("X-Banyan-Policy"), text)
		}
	}
}

// TestEventsByHTTP: what a sender is told.
func TestEventsByHTTP(t *testing.T) {
	const body = `{"replica":"r","epoch_ms":1700000000000,"seq":0,"ts":1700000000.5,"events":[
		{"type":"BlockStored","block_hashes":[1],"parent_block_hash":null,"token_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"block_size":16}]}`
	off := bounded(t, func(*Config) {})
	if status, _, text := call(t, "POST", "http://"+off.front.admin.Addr().String()+access.EventsPath, "", body, ""); status != http.StatusForbidden {
		t.Errorf("without ingest.token: %d %s", status, text)
	}
	p := bounded(t, func(c *Config) {
		c.Ingest.Token = "secret"
		c.Replicas = []fleet.Spec{{Name: "r", URL: c.Replicas[0].URL, Engine: "vllm", Model: "m"}}
	})
	url := "http://" + p.front.admin.Addr().String() + access.EventsPath
	for name, c := range map[string]struct {
		token, body string
		status      int
		holds       string
	}{
		"a batch":             {"secret", body, http.StatusAccepted, ""},
		"the same again":      {"secret", body, http.StatusAccepted, ""},
		"another token":       {"other", body, http.StatusUnauthorized, "ingest.token"},
		"an event of no kind": {"secret", strings.Replace(body, "BlockStored", "Stored", 1), http.StatusBadRequest, "event 0"},
		"of nobody":           {"secret", strings.Replace(body, `"r"`, `"nobody"`, 1), http.StatusBadRequest, "nobody"},
	} {
		if status, _, text := call(t, "POST", url, c.token, c.body, c.holds); status != c.status || !strings.Contains(text, c.holds) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	wait(t, "the block is known", func() bool { return p.Status().Tree.Facts == 1 })
}
