package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
)

// p2pEngine is a vLLM whose P2P tier is elsewhere: it keeps what it was told and
// says how many tokens it found cached.
type p2pEngine struct {
	*httptest.Server
	mu     sync.Mutex
	params string // of the last request
	header string
	cached int
}

func newP2PEngine(t *testing.T) *p2pEngine {
	e := &p2pEngine{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
			return
		}
		var b struct {
			Params json.RawMessage `json:"kv_transfer_params"`
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &b)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.params, e.header = string(b.Params), r.Header.Get(kvSourceHeader)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","choices":[{"index":0,"text":"a","finish_reason":"stop"}],"usage":{"prompt_tokens":8070,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%d}}}`, e.cached)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *p2pEngine) find(cached int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cached = cached
}

func (e *p2pEngine) told() (params, header string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.params, e.header
}

// A replica that may not get requests holds a prompt of 8,000 tokens: another
// one is told to fetch it there, over what clients write, and what came of it
// is counted and told.
func TestReplicasFetchWhatAnotherOneHolds(t *testing.T) {
	holder, other := newP2PEngine(t), newP2PEngine(t)
	p := bounded(t, func(c *Config) {
		c.Replicas = []fleet.Spec{
			{Name: "holder", URL: holder.URL, Engine: "vllm", Model: "m", P2P: "10.0.0.7:5710"},
			{Name: "other", URL: other.URL, Engine: "vllm", Model: "m", P2P: "10.0.0.8:5710"},
		}
		c.Ingest.Token = "secret"
	})
	const blocks = 500
	list := func(from, n int) string {
		text := make([]string, n)
		for i := range text {
			text[i] = fmt.Sprint(from + i)
		}
		return strings.Join(text, ",")
	}
	const prompts = 10
	for at := range prompts { // each its own, or the others are expected where the first one went
		body := fmt.Sprintf(`{"replica":"holder","epoch_ms":1700000000000,"seq":%d,"ts":1700000000.5,"events":[
			{"type":"BlockStored","block_hashes":[%s],"parent_block_hash":null,"token_ids":[%s],"block_size":16,"medium":"GPU"}]}`,
			at, list(1+at*blocks, blocks), list(1+10_000*at, 16*blocks))
		if status, _, text := call(t, "POST", "http://"+p.front.admin.Addr().String()+access.EventsPath, "secret", body, ""); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, text)
		}
	}
	p.loads.SetIntent(p.fleet.Get("holder").Stream, true, 1)
	send := func(prompt int) (id string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.front.public.Addr().String()+"/v1/completions",
			strings.NewReader(fmt.Sprintf(`{"model":"m","prompt":[%s],"kv_transfer_params":{"remote_kv_source":{"remote_host":"evil"}}}`, list(1+10_000*prompt, 16*blocks+70))))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(kvSourceHeader, "evil:1")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if at := res.Header.Get("X-Banyan-Replica"); at != "other" || res.StatusCode != http.StatusOK {
			t.Fatalf("%d from %q: %s", res.StatusCode, at, text)
		}
		return res.Header.Get("X-Request-Id")
	}
	outcome := func(how string) float64 {
		var m dto.Metric
		if err := p.metrics.Fetches.WithLabelValues(how).Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}

	other.find(8000)
	id := send(0)
	params, header := other.told()
	var got struct {
		Source struct {
			Request string `json:"kv_request_id"`
			Host    string `json:"remote_host"`
			Port    int    `json:"remote_port"`
		} `json:"remote_kv_source"`
	}
	if err := json.Unmarshal([]byte(params), &got); err != nil || got.Source.Host != "10.0.0.7" || got.Source.Port != 5710 || got.Source.Request == "" {
		t.Errorf("the engine was told %s (%v), want the holder's P2P tier and a name for the request", params, err)
	}
	if want := strings.TrimPrefix(holder.URL, "http://"); header != want {
		t.Errorf("the sidecar would be told %q, want %s", header, want)
	}
	wait(t, "the fetch is counted", func() bool { return outcome(metrics.FetchCame) == 1 })
	status, _, why := call(t, "GET", "http://"+p.front.admin.Addr().String()+"/v1/requests/"+id, "", "", "")
	if status != http.StatusOK || !strings.Contains(strings.Join(strings.Fields(why), ""), `"kv_source":"holder","fetched_tokens":8000`) {
		t.Errorf("%d %s: nobody tells what was fetched from whom", status, why)
	}

	for n := 1; n < prompts; n++ { // it computes all the same: soon it is not told any more
		other.find(0)
		send(n)
		if params, header = other.told(); params == "" {
			break
		}
		wait(t, "what was computed all the same is counted", func() bool { return outcome(metrics.FetchComputed) == float64(n) })
	}
	if params != "" || header != "" || outcome(metrics.FetchComputed) == 0 {
		t.Errorf("after %v fetches that brought nothing it was told %s, %s", outcome(metrics.FetchComputed), params, header)
	}
}

// Bodies without a place for it, and replicas without a P2P tier, are told nothing.
func TestWhoCannotFetchIsToldNothing(t *testing.T) {
	s := &scratch{}
	for name, c := range map[string]struct {
		specs []fleet.Spec
		want  string
	}{
		"both":         {[]fleet.Spec{{Engine: "vllm", P2P: "a:1"}, {Engine: "vllm", P2P: "b:1"}}, "[true true]"},
		"one":          {[]fleet.Spec{{Engine: "vllm", P2P: "a:1"}, {Engine: "vllm"}}, "[true false]"},
		"another kind": {[]fleet.Spec{{Engine: "sglang", P2P: "a:1"}, {Engine: "sglang"}}, "[]"},
		"none":         {[]fleet.Spec{{Engine: "vllm"}, {Engine: "vllm"}}, "[]"},
	} {
		s.replicas = s.replicas[:0]
		for _, spec := range c.specs {
			f := fleet.New(fleet.Config{})
			spec.URL = "http://a:1"
			f.Set([]fleet.Spec{spec}, time.Now())
			s.replicas = append(s.replicas, f.List()...)
		}
		if s.seeFetches(); fmt.Sprint(s.fetches) != c.want {
			t.Errorf("%s: %v, want %s", name, s.fetches, c.want)
		}
	}
}
