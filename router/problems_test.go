package router

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/metrics"
)

// problemsOf are the problems of a peer's status that hold a word.
func problemsOf(p *Peer, word string) (out []console.Problem) {
	for _, q := range p.Status().Problems {
		if strings.Contains(q.Text, word) {
			out = append(out, q)
		}
	}
	return out
}

// An answer that breaks off, or tells of an error, is no success though its
// status was 200.
func TestAnswersThatBreakOffAreCountedAsFailed(t *testing.T) {
	const event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
	p := bounded(t, func(c *Config) {
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
				return
			}
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
			switch {
			case strings.Contains(string(body), "break"):
				panic(http.ErrAbortHandler)
			case strings.Contains(string(body), "fail"):
				_, _ = io.WriteString(w, "data: {\"error\":{\"message\":\"out of memory\"}}\n\n")
			}
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		}))
		t.Cleanup(engine.Close)
		c.Replicas[0].URL = engine.URL
	})
	for i, what := range []string{"well", "break", "fail"} {
		res, err := http.Post("http://"+p.front.public.Addr().String()+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"`+what+`"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(res.Body)
		res.Body.Close()
		wait(t, "it is counted", func() bool { return p.Status().Requests.Total == uint64(i+1) })
		if failed := p.Status().Requests.Failed; res.StatusCode != 200 || failed != uint64(i) || metrics.Count(p.metrics.Cut) != uint64(i) {
			t.Errorf("%s: status %d, %d failed, %v cut", what, res.StatusCode, failed, metrics.Count(p.metrics.Cut))
		}
	}
}
