package router

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
)

// TestASharedCacheLayerCountsForEveryReplica: what a store of kind pool holds
// is as good as cached at every replica of its model, while it is up, and no
// request is sent to it.
func TestASharedCacheLayerCountsForEveryReplica(t *testing.T) {
	p := bounded(t, func(c *Config) {
		r := c.Replicas[0]
		r.Engine = "vllm"
		store := fleet.Spec{Name: "store", URL: r.URL + "/store", Engine: "vllm", Model: "m", Kind: "pool"}
		foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":[{"id":"another"}]}`) }))
		t.Cleanup(foreign.Close)
		closed := httptest.NewServer(http.NotFoundHandler())
		closed.Close()
		c.Replicas = []fleet.Spec{
			r, store,
			{Name: "foreign", URL: foreign.URL, Engine: "vllm", Kind: "pool"},
			{Name: "closed", URL: closed.URL, Engine: "vllm", Model: "m", Kind: "pool"},
		}
		c.Ingest.Token = "secret"
	})
	ids := func(n, from int) string {
		text := make([]string, n)
		for i := range text {
			text[i] = fmt.Sprint(from + i)
		}
		return "[" + strings.Join(text, ",") + "]"
	}
	for replica, from := range map[string]int{"store": 1, "foreign": 1000, "closed": 2000} {
		body := fmt.Sprintf(`{"replica":%q,"epoch_ms":1700000000000,"seq":0,"ts":1700000000.5,"events":[
			{"type":"BlockStored","block_hashes":[1,2,3,4],"parent_block_hash":null,"token_ids":%s,"block_size":16,"medium":"CPU"}]}`, replica, ids(64, from))
		if status, _, text := call(t, "POST", "http://"+p.front.admin.Addr().String()+access.EventsPath, "secret", body, ""); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, text)
		}
	}
	for _, q := range p.Status().Replicas {
		want := "ok" // events came, if not from where the configuration says
		if q.Name == "r" {
			want = "none"
		}
		if q.Stream.State != want {
			t.Errorf("the stream of %s is %s: %s", q.Name, q.Stream.State, q.Stream.Detail)
		}
	}
	matched := func(from int) string {
		t.Helper()
		res, err := http.Post("http://"+p.front.public.Addr().String()+"/v1/completions", "application/json",
			strings.NewReader(fmt.Sprintf(`{"model":"m","prompt":%s}`, ids(70, from))))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if at := res.Header.Get("X-Banyan-Replica"); at != "r" {
			t.Fatalf("the request went to %q", at)
		}
		return res.Header.Get("X-Banyan-Matched-Tokens")
	}
	wait(t, "one store is down", func() bool {
		return !p.fleet.Get("closed").Up() && p.fleet.Get("store").Up() && p.fleet.Get("foreign").Up()
	})
	if got := matched(1000); got != "0" {
		t.Errorf("a store of another model: %s tokens matched", got)
	}
	if got := matched(2000); got != "0" {
		t.Errorf("a store that is down: %s tokens matched", got)
	}
	if got := matched(1); got != "64" {
		t.Errorf("%s tokens matched, want the store's 64", got)
	}
}
