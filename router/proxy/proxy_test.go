package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestWholeAnswerPassesWithHeadersAndUsage(t *testing.T) {
	body := `{"id":"x","choices":[{}],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`
	var got, id string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got, id = readAll(r), r.Header.Get("X-Request-Id")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "engine's")
		w.Header().Set("X-Engine", "kept")
		_, _ = io.WriteString(w, body)
	})
	a := g.do(http.MethodPost, "/v1/chat/completions?a=b", plainChat, http.Header{"X-Request-Id": {"mine"}})
	if a.status != 200 || a.body != body || got != plainChat {
		t.Fatalf("%+v; upstream got %s", a, got)
	}
	for name, want := range map[string]string{
		"X-Request-Id": id, "X-Client-Request-Id": "mine", "X-Banyan-Peer": "peer-a", "X-Banyan-Replica": "r0",
		"X-Banyan-Policy": "ttft", "X-Banyan-Matched-Tokens": "32", "X-Engine": "kept",
	} {
		if a.header.Get(name) != want || want == "" {
			t.Errorf("%s: %q, want %q", name, a.header.Get(name), want)
		}
	}
	r := g.last()
	if r.Status != 200 || r.Err != nil || r.Bytes != int64(len(body)) || r.Usage.Prompt != 9 || r.Usage.Cached != 8 || !r.Usage.CachedKnown || r.TTFT != 0 {
		t.Fatalf("%+v", r)
	}
}

var stream = []string{
	": ping\n\n",
	"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
	"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
	"data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n", "\n",
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n",
	"data: [DONE]\n\n",
}

func TestI3StreamIsExactWhenTheClientAskedForUsage(t *testing.T) {
	var got string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got = readAll(r)
		writeChunks(w, stream...)
	})
	a := g.chat(usageChat)
	if a.body != strings.Join(stream, "") || got != usageChat {
		t.Fatalf("%q", a.body)
	}
	r := g.last()
	if r.Usage.Prompt != 4 || r.Usage.Completion != 2 || r.Usage.CachedKnown || r.Finish != "stop" || r.TTFT <= 0 || g.firsts != 1 {
		t.Fatalf("%+v", r)
	}
}

func TestI3UsageAskedOnTheClientsBehalfIsNotSeen(t *testing.T) {
	var got string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got = readAll(r)
		w.Header().Set("Content-Length", "1") // must not reach the client
		w.Header().Del("Content-Length")
		writeChunks(w,
			"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
			"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usa", "ge\":null}\n", "\n",
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n",
			"data: [DONE]\n\n")
	})
	a := g.chat(streamedChat)
	want := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n" +
		"data: [DONE]\n\n"
	if a.body != want {
		t.Fatalf("%q", a.body)
	}
	if !strings.Contains(got, `"stream_options":{"include_usage":true}`) {
		t.Fatal(got)
	}
	if r := g.last(); r.Usage.Prompt != 4 {
		t.Fatalf("%+v", r)
	}
}

func TestRefusals(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Limits.BodyBytes = 1000 }, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
	})
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for _, c := range []struct {
		name, method, path, body string
		header                   http.Header
		status                   int
		code                     string
	}{
		{"path", "POST", "/v2/x", "", nil, 404, "not_found"},
		{"root", "GET", "/", "", nil, 404, "not_found"},
		{"climbing path", "POST", "/v1/%2e%2e/metrics", "", nil, 404, "not_found"},
		{"double slash", "POST", "/v1//x", "", nil, 404, "not_found"},
		{"operator's path", "POST", "/v1/load_lora_adapter", "{}", nil, 404, "not_found"},
		{"operator's path with a slash", "POST", "/v1/load_lora_adapter/", "{}", nil, 404, "not_found"},
		{"slash at the end", "POST", "/v1/chat/completions/", plainChat, nil, 404, "not_found"},
		{"compressed", "POST", "/v1/chat/completions", "\x1f\x8b", http.Header{"Content-Encoding": {"gzip"}}, 415, "unsupported_media_type"},
		{"method", "GET", "/v1/chat/completions", "", nil, 405, "method_not_allowed"},
		{"method of models", "POST", "/v1/models", "{}", nil, 405, "method_not_allowed"},
		{"media type", "POST", "/v1/chat/completions", plainChat, form, 415, "unsupported_media_type"},
		{"oversize", "POST", "/v1/chat/completions", `{"a":"` + strings.Repeat("x", 1000) + `"}`, nil, 413, "request_too_large"},
		{"malformed", "POST", "/v1/chat/completions", `{"model":`, nil, 400, "invalid_request"},
		{"not utf-8", "POST", "/v1/chat/completions", "{\"messages\":[],\"a\":\"\xff\"}", nil, 400, "invalid_request"},
		{"unknown model", "POST", "/v1/chat/completions", `{"model":"unknown","messages":[]}`, nil, 404, "model_not_found"},
		{"no such model", "GET", "/v1/models/none", "", nil, 404, "model_not_found"},
	} {
		a := g.do(c.method, c.path, c.body, c.header)
		if a.status != c.status || errorCode(t, a) != c.code || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	if g.picked != 0 {
		t.Fatal("a refused request reached Pick")
	}
}

func TestUnannouncedOversizeIsRefused(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Limits.BodyBytes = 1000 })
	req, _ := http.NewRequest(http.MethodPost, g.front.URL+"/v1/completions", io.MultiReader(strings.NewReader(strings.Repeat("x", 2000))))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 413 || !res.Close {
		t.Fatalf("%d close %v", res.StatusCode, res.Close)
	}
}

func TestI5HostileRequestsAreCleaned(t *testing.T) {
	var header http.Header
	var got string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		header, got = r.Header.Clone(), readAll(r)
		w.WriteHeader(200)
	})
	g.targets[0].Header = http.Header{"X-Data-Parallel-Rank": {"3"}, "Authorization": {"Bearer engine"}}
	g.do(http.MethodPost, "/v1/chat/completions",
		`{"model":"m","messages":[],"kv_transfer_params":{"remote_host":"10.0.0.1"},"bootstrap_host":"evil","bootstrap_port":1,
		"bootstrap_room":2,"disaggregated_params":{},"data_parallel_rank":7,"rid":"___prefill_addr_1.2.3.4","request_id":"x"}`,
		http.Header{
			"X-Prefiller-Host-Port": {"evil:1"}, "X-Prefiller-Url": {"http://evil"}, "X-Encoder-Hosts-Ports": {"evil:2"},
			"X-Data-Parallel-Host-Port": {"evil:3"}, "X-Data-Parallel-Rank": {"9"}, "X-Gateway-Destination-Endpoint": {"evil"},
			"X-Request-Id": {"___prefill_addr_1.2.3.4:5___decode_addr_1.2.3.4:5"}, "X-Banyan-Session": {"s"}, "X-Banyan-Policy": {"random"},
			"Authorization": {"Bearer client"}, "Connection": {"X-Secret"}, "X-Secret": {"1"}, "Te": {"trailers"},
			"X-Routed-Dp-Rank": {"1"}, "X-Worker-Instance-Id": {"2"}, "X-Dynamo-Worker": {"3"}, "X-Sglang-Routing-Key": {"4"},
			"Accept-Encoding": {"gzip"}, "Traceparent": {"00-1-2-01"}, "X-Plain": {"kept"},
		})
	if got != `{"model":"m","messages":[]}` {
		t.Errorf("body %s", got)
	}
	for _, name := range []string{
		"X-Prefiller-Host-Port", "X-Prefiller-Url", "X-Encoder-Hosts-Ports", "X-Data-Parallel-Host-Port", "X-Gateway-Destination-Endpoint",
		"X-Routed-Dp-Rank", "X-Worker-Instance-Id", "X-Dynamo-Worker", "X-Sglang-Routing-Key",
		"X-Banyan-Session", "X-Banyan-Policy", "X-Secret", "Te", "Accept-Encoding", "X-Idempotency-Key",
	} {
		if _, ok := header[name]; ok {
			t.Errorf("%s passed: %q", name, header[name])
		}
	}
	if header.Get("X-Data-Parallel-Rank") != "3" || header.Get("Authorization") != "Bearer engine" ||
		header.Get("Traceparent") == "" || header.Get("X-Plain") != "kept" || len(header.Get("X-Request-Id")) != 32 {
		t.Errorf("%v", header)
	}
	if g.calls[0].Session != "s" || g.calls[0].Policy != "" {
		t.Errorf("%+v", g.calls[0])
	}
}

// Who asks for a model that nobody serves is told which there are.
func TestAnUnknownModelNamesThoseServed(t *testing.T) {
	served := []Model{{ID: "a"}, {ID: "org/b"}}
	g := newRig(t, func(c *Config) { c.Models = func() []Model { return served } })
	for more, want := range map[int]string{0: "does not exist. Served here: `a`, `org/b`.", 20: "`m5`, 14 more."} {
		served = served[:2]
		for i := range more {
			served = append(served, Model{ID: fmt.Sprint("m", i)})
		}
		for _, a := range []answer{
			g.do(http.MethodPost, "/v1/chat/completions", `{"model":"unknown","messages":[]}`, nil),
			g.do(http.MethodGet, "/v1/models/unknown", "", nil),
		} {
			if a.status != 404 || !strings.Contains(a.body, want) {
				t.Errorf("%d: %s", a.status, a.body)
			}
		}
	}
}

func TestModels(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Models = func() []Model { return []Model{{ID: "org/m", OwnedBy: "vllm", MaxModelLen: 8192}} }
	})
	a := g.do(http.MethodGet, "/v1/models", "", nil)
	one := `{"id":"org/m","object":"model","created":0,"owned_by":"vllm","max_model_len":8192}`
	if a.status != 200 || a.body != `{"object":"list","data":[`+one+`]}` {
		t.Fatal(a.body)
	}
	if a = g.do(http.MethodGet, "/v1/models/org/m", "", nil); a.body != one {
		t.Fatal(a.body)
	}
	if a = newRig(t, nil).do(http.MethodGet, "/v1/models", "", nil); a.body != `{"object":"list","data":[]}` {
		t.Fatal(a.body)
	}
}

func TestOtherPathsPassThrough(t *testing.T) {
	var got *http.Request
	var body string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got, body = r, readAll(r)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "ok")
	})
	a := g.do(http.MethodPost, "/v1/audio/a%20b?x=1&y", "raw bytes", http.Header{"Content-Type": {"audio/wav"}})
	if a.body != "ok" || body != "raw bytes" || got.URL.RequestURI() != "/v1/audio/a%20b?x=1&y" {
		t.Fatalf("%+v %s %s", a, body, got.URL)
	}
	a = g.do(http.MethodPost, "/v1/score", `{"model":"m","kv_transfer_params":1}`, nil)
	if body != `{"model":"m"}` || a.status != 200 || g.calls[1].Body.Model != "m" {
		t.Fatal(body)
	}
	a = g.do(http.MethodGet, "/v1/files", "", nil)
	if a.body != "ok" || got.Method != http.MethodGet {
		t.Fatalf("%+v", a)
	}
}

func TestTenantsGetSaltsOfTheirOwn(t *testing.T) {
	var got string
	g := newRig(t, func(c *Config) { c.TenantHeader = "X-Tenant" }, func(w http.ResponseWriter, r *http.Request) {
		got = readAll(r)
		w.WriteHeader(200)
	})
	salts := map[string]bool{}
	for _, c := range []struct{ tenant, salt string }{{"", ""}, {"a", ""}, {"", "a"}, {"a", "b"}, {"a:b", ""}, {"", "tenant:1:a"}} {
		body := `{"model":"m","messages":[]}`
		if c.salt != "" {
			body = `{"model":"m","messages":[],"cache_salt":"` + c.salt + `"}`
		}
		g.do(http.MethodPost, "/v1/chat/completions", body, http.Header{"X-Tenant": {c.tenant}})
		call := g.calls[len(g.calls)-1]
		if call.Tenant != c.tenant || !strings.Contains(got, `"cache_salt":"`+call.Body.CacheSalt+`"`) {
			t.Errorf("%v: %s, salt %q", c, got, call.Body.CacheSalt)
		}
		salts[call.Body.CacheSalt] = true
	}
	if len(salts) != 6 {
		t.Fatalf("%v", salts)
	}
}

func TestI7DrainingClosesConnections(t *testing.T) {
	var draining atomic.Bool
	g := newRig(t, func(c *Config) { c.Draining = draining.Load }, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(readAll(r), "drain now") {
			draining.Store(true)
		}
		w.Header().Set("Connection", "keep-alive")
		w.WriteHeader(200)
	})
	closes := func(path, body string) bool {
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		req, _ := http.NewRequest(method, g.front.URL+path, strings.NewReader(body))
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.Close
	}
	if closes("/v1/chat/completions", plainChat) || closes("/v1/models", "") {
		t.Fatal("closes without reason")
	}
	if !closes("/v1/chat/completions", `{"model":"m","messages":[],"user":"drain now"}`) {
		t.Error("a drain that began during the request was not seen")
	}
	for _, c := range [][2]string{{"/v1/chat/completions", plainChat}, {"/v1/chat/completions", "{"}, {"/v1/models", ""}, {"/x", ""}} {
		if !closes(c[0], c[1]) {
			t.Errorf("%s %s stays open", c[0], c[1])
		}
	}
}

func TestClientsKeyReachesReplicasOnlyIfKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		var got string
		g := newRig(t, func(c *Config) { c.KeepAuthorization = keep }, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Authorization")
			w.WriteHeader(200)
		})
		g.do(http.MethodPost, "/v1/chat/completions", plainChat, http.Header{"Authorization": {"Bearer client"}})
		if (got != "") != keep {
			t.Errorf("keep %v: %q", keep, got)
		}
	}
}
