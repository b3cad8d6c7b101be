package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/banyan-llm/banyan/simulation/standin"
)

func TestLoadDrivesAnEndpoint(t *testing.T) {
	s, err := standin.New(standin.Config{Profile: "fast", Model: "some-model"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	code, out, errs := played("load", "--url", "http://"+s.Addr()+"/v1", "--workload", "demo", "--requests", "20", "--concurrency", "4", "--json")
	if code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	var rep struct {
		Model     string
		Requests  int
		Completed int
		Failed    int
		TTFT      struct{ Mean, P50, P90, P99 float64 } `json:"ttft_ms"`
		TPOT      struct{ P50, P99 float64 }            `json:"tpot_ms"`
		Cached    int                                   `json:"cached_tokens"`
	}
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatalf("not one JSON object: %v", err)
	}
	if rep.Model != "some-model" || rep.Completed < 20 || rep.Completed != rep.Requests || rep.TTFT.P99 <= 0 || rep.TPOT.P50 <= 0 || rep.Cached <= 0 {
		t.Errorf("%+v", rep)
	}
}

// A model of a small context gets nothing that does not go into it, and
// failures are the command's own.
func TestLoadStaysInsideTheModel(t *testing.T) {
	s, err := standin.New(standin.Config{Profile: "fast", Model: "small", MaxModelLen: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	args := []string{"load", "--url", s.URL(), "--workload", "b2b", "--requests", "12", "--concurrency", "4", "--json"}
	code, out, errs := played(args...)
	if code != exitOK || !strings.Contains(errs, "were shortened to the context of small, 256 tokens") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs = played(append(args, "--vocabulary", "1000")...); code != exitOK {
		t.Errorf("with token ids: exit %d: %s%s", code, out, errs)
	}
	var served atomic.Int64
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
			return
		}
		if n := served.Add(1); n%2 == 0 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer failing.Close()
	args[2] = failing.URL
	if code, out, errs := played(args...); code != exitFailed || !strings.Contains(out, `"failed": `) {
		t.Errorf("half of them failed: exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := played(append(args, "--max-failures", "1000")...); code != exitOK {
		t.Errorf("and that is allowed: exit %d: %s%s", code, out, errs)
	}
}

func TestLoadNamesEveryFault(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(trace, []byte("\n{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tellsFaults(t, "load", []misuse{
		{nil, []string{"url: required", "http.listen"}},
		{
			[]string{"--url", "localhost:8080", "--workload", "nothing", "--requests", "-1", "--rate", "-1", "--concurrency", "-2", "--duration", "-3s", "--max-in-flight", "-4", "--bogus"},
			[]string{"url: ", "http.listen", "nothing", "requests: -1", "rate: -1", "concurrency: -2", "duration: -3s", "max-in-flight: -4", "--bogus"},
		},
		{[]string{"--url", "ftp://x", "--workload", "nothing"}, []string{"url", "nothing"}},
		{[]string{"--url", "http://127.0.0.1:1", "--trace", trace}, []string{"line 2"}},
		{[]string{"--url", "http://127.0.0.1:1", "--rate", "1", "--concurrency", "2"}, []string{"exclude"}},
		{[]string{"--url", "http://127.0.0.1:1", "--key-file", trace + "x"}, []string{"no such file"}},
		{[]string{"--url", "http://127.0.0.1:1", "--timeout", "0s", "more"}, []string{"timeout", "more"}},
	})
	if code, _, errs := played("load", "--url", "http://127.0.0.1:1"); code != exitFailed || !strings.Contains(errs, "list models") {
		t.Errorf("nobody there: exit %d, %s", code, errs)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if code, _, errs := played("load", "--url", other.URL); code != exitFailed || !strings.Contains(errs, "the base of an OpenAI endpoint") {
		t.Errorf("another server: exit %d, %s", code, errs)
	}
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer locked.Close()
	if code, _, errs := played("load", "--url", locked.URL); code != exitFailed || !strings.Contains(errs, "the endpoint wants a key: --key-file FILE") || strings.Contains(errs, "--model") {
		t.Errorf("without a key: exit %d, %s", code, errs)
	}
	wrong := writeFile(t, "nonsense\n")
	if code, _, errs := played("load", "--url", locked.URL, "--key-file", wrong); code != exitFailed || !strings.Contains(errs, "does not know the key in "+wrong) {
		t.Errorf("with another key: exit %d, %s", code, errs)
	}
}
