package router

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/console"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/requests"
)

// A client that gives up is not told as a replica that reset its connection, and
// the list of requests says that such are not in it.
func TestAClientThatGaveUpIsToldAsSuch(t *testing.T) {
	frozen := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body) // so that the end of the client is seen
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"m","object":"model"}]}`))
	}))
	t.Cleanup(func() { frozen.CloseClientConnections(); frozen.Close() })
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "r0", URL: frozen.URL, Engine: "vllm", Model: "m"}}
	})
	wait(t, "the peer serves", func() bool { ok, _ := p.readiness.ready(); return ok && allUp(p) })
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.front.public.Addr().String()+"/v1/completions", strings.NewReader(`{"model":"m","prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "mine")
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Fatalf("answered %d", res.StatusCode)
	}
	var told *requests.Told
	wait(t, "the request is over", func() bool {
		told, err = p.journal.findRequest("mine")
		return err == nil && told.State != "running" && len(told.Request.Tries) > 0
	})
	var out strings.Builder
	if err := console.WriteWhy(&out, told, console.Look{}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "cancelled: the client left") || strings.Contains(text, "reset") {
		t.Error(text)
	}
	if list := p.journal.notableRequests(9); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	out.Reset()
	if err := console.WriteRequests(&out, nil, console.Look{}); err != nil || !strings.Contains(out.String(), "whose client gave up") {
		t.Errorf("%v: %s", err, out.String())
	}
}
