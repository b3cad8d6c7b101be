package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
)

// pages is an engine that answers some paths and knows no others.
func pages(t *testing.T, answers map[string]string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		switch {
		case strings.HasPrefix(body, "status "):
			var code int
			_, _ = fmt.Sscanf(body, "status %d", &code)
			w.WriteHeader(code)
		case ok:
			fmt.Fprint(w, body)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// ask runs one inquiry against an engine.
func ask(t *testing.T, spec Spec, answers map[string]string) (Facts, bool) {
	t.Helper()
	srv := pages(t, answers)
	spec.URL = srv.URL
	f := New(Config{})
	f.Set([]Spec{spec}, time.Now())
	r := f.List()[0]
	if list, err := readModels(t.Context(), f.pagesOf(r)); err == nil {
		r.models.Store(&list)
	}
	settled := f.inquire(t.Context(), r, f.pagesOf(r))
	return r.Facts(), settled
}

func TestTheEngineTellsWhatItIs(t *testing.T) {
	owned := func(by string) string {
		return fmt.Sprintf(`{"data":[{"id":"m","owned_by":%q}]}`, by)
	}
	for name, tc := range map[string]struct {
		spec    Spec
		answers map[string]string
		engine  string
		from    string
		block   int
		blockAt string
		settled bool
	}{
		"owner of the models": {
			answers: map[string]string{"/v1/models": owned("vllm"), "/metrics": `vllm:cache_config_info{block_size="64",num_gpu_blocks="10"} 1`},
			engine:  "vllm", from: "/v1/models", block: 64, blockAt: "/metrics", settled: true,
		},
		"a renamed owner, SGLang's arguments": {
			answers: map[string]string{"/v1/models": owned("acme"), "/server_info": `{"page_size":32,"version":"0.5.9"}`},
			engine:  "sglang", from: "/server_info", block: 32, blockAt: "/server_info", settled: true,
		},
		"the old path": {
			answers: map[string]string{"/get_server_info": `{"page_size":16}`},
			engine:  "sglang", from: "/server_info", block: 16, blockAt: "/server_info", settled: true,
		},
		"wider pages under context parallelism": {
			answers: map[string]string{"/server_info": `{"page_size":16,"dcp_size":4,"kv_events":{"publisher":"zmq","block_size":16}}`},
			engine:  "sglang", from: "/server_info", block: 64, blockAt: "/server_info", settled: true,
		},
		"TensorRT-LLM": {
			answers: map[string]string{
				"/server_info": `{"disaggregated_params":null,"kv_cache_hash_algo":"v1"}`, "/prometheus/metrics": "trtllm_kv_cache_tokens_per_block 32",
			},
			engine: "trtllm", from: "/server_info", block: 32, blockAt: "/prometheus/metrics", settled: true,
		},
		"names of the metrics": {
			answers: map[string]string{"/metrics": "sglang:num_running_reqs 0\nsglang:page_size 1\n"},
			engine:  "sglang", from: "/metrics", block: 1, blockAt: "/metrics", settled: true,
		},
		"under Ray": {
			answers: map[string]string{"/metrics": "ray_vllm_num_requests_running 0\n"}, engine: "vllm", from: "/metrics", settled: true,
		},
		"only a version": {
			answers: map[string]string{"/version": `{"version":"0.9.2"}`}, engine: "vllm", from: "/version", settled: true,
		},
		"nothing at all": {answers: map[string]string{}, engine: "vllm", from: "assumed", settled: true},
		"garbage everywhere": {
			answers: map[string]string{"/v1/models": "<html>", "/server_info": "\x00\xff{", "/metrics": "{{{", "/version": "status 404"},
			engine:  "vllm", from: "assumed", settled: true,
		},
		"absurd numbers": {
			answers: map[string]string{"/server_info": `{"page_size":-5,"dcp_size":1000000,"max_total_num_tokens":-1}`},
			engine:  "sglang", from: "/server_info", settled: true,
		},
		"not answering yet": {
			answers: map[string]string{"/server_info": "status 503", "/metrics": "status 503", "/version": "status 503"},
		},
		"only the last question is open": {answers: map[string]string{"/version": "status 503"}},
		"configured wins over told": {
			spec: Spec{Engine: "vllm"}, answers: map[string]string{"/v1/models": owned("sglang")}, engine: "vllm", from: "configured", settled: true,
		},
	} {
		f, settled := ask(t, tc.spec, tc.answers)
		if f.Engine != tc.engine || f.EngineFrom != tc.from || f.BlockSize != tc.block || f.BlockFrom != tc.blockAt || settled != tc.settled {
			t.Errorf("%s: %+v, settled %v", name, f, settled)
		}
	}
}

func TestSGLangTellsItsEvents(t *testing.T) {
	const base = "http://10.1.2.3:30000"
	for name, tc := range map[string]struct {
		info, events, replay, topic string
		rank                        int
	}{
		"host and port":      {info: `{"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"topic":"kv"}}`, events: "tcp://10.1.2.3:5557", topic: "kv"},
		"one port a rank":    {info: `{"kv_events":{"endpoint_host":"0.0.0.0","endpoint_port_base":5557}}`, rank: 3, events: "tcp://10.1.2.3:5560"},
		"another address":    {info: `{"kv_events":{"endpoint_host":"10.9.9.9","endpoint_port_base":5557}}`},
		"its own address":    {info: `{"kv_events":{"endpoint_host":"10.1.2.3","endpoint_port_base":5557}}`, events: "tcp://10.1.2.3:5557"},
		"IPv6":               {info: `{"kv_events":{"endpoint_host":"[fd00::1]","endpoint_port_base":5557}}`},
		"the option's text":  {info: `{"kv_events_config":"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:6000\",\"replay_endpoint\":\"tcp://*:7000\"}"}`, events: "tcp://10.1.2.3:6000", replay: "tcp://10.1.2.3:7000"},
		"ports of 0.5.23":    {info: `{"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"replay_endpoint_port_base":5600,"load_endpoint_port_base":5559,"load_topic":"load","topic":""}}`, rank: 1, events: "tcp://10.1.2.3:5558", replay: "tcp://10.1.2.3:5601"},
		"off":                {info: `{"kv_events":{"publisher":"null","endpoint_host":"*","endpoint_port_base":5557}}`},
		"none":               {info: `{"kv_events":null}`},
		"our own loopback":   {info: `{"kv_events":{"endpoint_host":"127.0.0.1","endpoint_port_base":6379}}`},
		"cloud metadata":     {info: `{"kv_events":{"endpoint_host":"169.254.169.254","endpoint_port_base":80}}`},
		"a name":             {info: `{"kv_events":{"endpoint_host":"vault.internal","endpoint_port_base":80}}`},
		"a port too far":     {info: `{"kv_events":{"endpoint_host":"*","endpoint_port_base":65535}}`, rank: 1},
		"a port below":       {info: `{"kv_events":{"endpoint_host":"*","endpoint_port_base":-1}}`},
		"not over a network": {info: `{"kv_events_config":"{\"endpoint\":\"ipc:///tmp/x\"}"}`},
		"option is garbage":  {info: `{"kv_events_config":"--nope"}`},
	} {
		info, err := parseServerInfo([]byte(tc.info), base, tc.rank)
		if err != nil || info.events != tc.events || info.replay != tc.replay || info.topic != tc.topic {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
}

func TestRanksBehindAURLAreTold(t *testing.T) {
	for body, want := range map[string]int{
		`{"page_size":16,"dp_size":4}`: 4, `{"page_size":16}`: 0, `{"page_size":16,"dp_size":-1}`: 0, `{"page_size":16,"dp_size":2000000}`: 0,
	} {
		if f, _ := ask(t, Spec{Engine: "sglang"}, map[string]string{"/server_info": body}); f.Ranks != want {
			t.Errorf("%s: %d ranks", body, f.Ranks)
		}
	}
}

func TestKeysInServerInfoAreKeptNowhere(t *testing.T) {
	const secret = "sk-very-secret"
	var log bytes.Buffer
	for _, body := range []string{
		`{"api_key":"` + secret + `","page_size":16,"admin_api_key":"` + secret + `"}`,
		`{"page_size":"` + secret + `"}`,
		`{"kv_events":{"endpoint_host":"` + secret + `","endpoint_port_base":1}}`,
		`{"kv_events_config":"` + secret + `"}`,
		`{"page_size":16} ` + secret,
	} {
		srv := pages(t, map[string]string{"/server_info": body})
		f := New(Config{Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log})})
		f.Set([]Spec{{URL: srv.URL, Engine: "sglang"}}, time.Now())
		r := f.List()[0]
		f.inquire(t.Context(), r, f.pagesOf(r))
		_, err := parseServerInfo([]byte(body), srv.URL, 0)
		if kept := fmt.Sprintf("%+v %+v %v %s", r.Facts(), r.Health(), err, log.String()); strings.Contains(kept, secret) {
			t.Errorf("I5: %s", kept)
		}
	}
}

func FuzzParseServerInfo(f *testing.F) {
	f.Add([]byte(`{"page_size":16,"dcp_size":2,"kv_events":{"endpoint_host":"*","endpoint_port_base":5557,"block_size":16}}`), 0)
	f.Add([]byte(`{"kv_cache_hash_algo":"v1","kv_events_config":"{\"endpoint\":\"tcp://[::]:1\"}"}`), 65535)
	f.Fuzz(func(t *testing.T, body []byte, rank int) {
		info, err := parseServerInfo(body, "http://h:1", rank)
		if err == nil && (info.blockSize < 0 || info.blockSize > maxBlockSize || info.capacity < 0) {
			t.Errorf("%+v", info)
		}
		for _, endpoint := range []string{info.events, info.replay} {
			if endpoint != "" && ValidateSpecs([]Spec{{URL: "http://h:1", Events: endpoint}}) != nil {
				t.Errorf("%q cannot be dialed", endpoint)
			}
		}
	})
}

func TestLoadsOfARank(t *testing.T) {
	const body = `{"timestamp":"t","version":"0.5.4","loads":[
		{"dp_rank":0,"num_running_reqs":24,"num_waiting_reqs":3,"num_used_tokens":382910,"max_total_num_tokens":524288,"token_usage":0.7303},
		{"dp_rank":1,"num_running_reqs":19,"num_waiting_reqs":0,"max_total_num_tokens":524288,"token_usage":0.5}]}`
	s, err := parseLoads([]byte(body), 1)
	if want := (crdt.Scrape{Running: 19, KVUse: .5, Capacity: 524288}); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	for name, bad := range map[string]string{
		"another rank": body, "no entries": `{"loads":[]}`, "capacity 0": `{"loads":[{"dp_rank":7,"max_total_num_tokens":0}]}`,
		"garbage": "{", "a list": "[]", "nothing": "",
	} {
		if s, err := parseLoads([]byte(bad), 7); err == nil {
			t.Errorf("I7: %s reads as %+v", name, s)
		}
	}
	if s, err := parseLoads([]byte(`{"loads":[{"num_running_reqs":1e300,"num_waiting_reqs":-4,"max_total_num_tokens":1e300,"token_usage":9}]}`), 2); err != nil || s.Running <= 0 || s.Waiting != 0 || s.KVUse != 1 || s.Capacity <= 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzParseLoads(f *testing.F) {
	f.Add([]byte(`{"loads":[{"dp_rank":0,"num_running_reqs":1,"max_total_num_tokens":5}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if s, err := parseLoads(body, 0); err == nil && (s.Running < 0 || s.Waiting < 0 || s.Capacity <= 0 || !(s.KVUse >= 0 && s.KVUse <= 1)) {
			t.Errorf("%+v", s)
		}
	})
}

// watched runs a fleet over one replica until the test ends.
func watched(t *testing.T, cfg Config, specs ...Spec) *Fleet {
	t.Helper()
	f := New(cfg)
	f.Set(specs, time.Now())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	return f
}

func TestSGLangWithoutLoadsIsReadFromItsMetrics(t *testing.T) {
	srv := pages(t, map[string]string{"/metrics": "sglang:num_running_reqs 5\nsglang:num_queue_reqs 6\n"})
	var seen atomic.Pointer[crdt.Scrape]
	watched(t, Config{Scrape: 10 * time.Millisecond, Scraped: func(_ crdt.StreamID, s crdt.Scrape) { seen.Store(&s) }},
		Spec{URL: srv.URL, Engine: "sglang"})
	eventually(t, "load read", func() bool { s := seen.Load(); return s != nil && s.Running == 5 && s.Waiting == 6 })
}

func TestOnlyOwnersReadLoad(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/loads" {
			asked.Add(1)
		}
		fmt.Fprint(w, `{"page_size":16}`)
	}))
	defer srv.Close()
	var owned atomic.Bool
	f := watched(t, Config{Scrape: time.Millisecond, Owned: func(crdt.StreamID) bool { return owned.Load() }}, Spec{URL: srv.URL, Engine: "sglang"})
	r := f.List()[0]
	eventually(t, "engine asked", func() bool { return r.Facts().BlockSize == 16 })
	if n := asked.Load(); n != 0 {
		t.Errorf("a peer that is no owner asked %d times", n)
	}
	owned.Store(true)
	eventually(t, "load asked for", func() bool { return asked.Load() > 0 })
	eventually(t, "why there is none is said", func() bool { return strings.Contains(r.LoadError(), "no load yet") })
}

func TestAnotherEngineBehindTheURLIsNoticed(t *testing.T) {
	var kind atomic.Value
	kind.Store("vllm")
	var up atomic.Bool
	up.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !up.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/v1/models":
			_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]any{"id": "m", "owned_by": kind.Load()}}})
		}
	}))
	defer srv.Close()
	var changes atomic.Int32
	f := watched(t, Config{Probe: 10 * time.Millisecond, Models: 10 * time.Millisecond, Changed: func() { changes.Add(1) }}, Spec{URL: srv.URL})
	r := f.List()[0]
	eventually(t, "vllm known", func() bool { return r.Engine() == "vllm" })
	up.Store(false)
	eventually(t, "down", func() bool { return !r.Up() })
	kind.Store("sglang")
	before := changes.Load()
	up.Store(true)
	eventually(t, "sglang known", func() bool { return r.Engine() == "sglang" })
	if changes.Load() == before {
		t.Error("nobody was told")
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	var reached atomic.Bool
	victim := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer victim.Close()
	srv := httptest.NewServer(http.RedirectHandler(victim.URL, http.StatusFound))
	defer srv.Close()
	f := New(Config{})
	f.Set([]Spec{{URL: srv.URL, Credentials: "c"}}, time.Now())
	if _, err := readModels(t.Context(), f.pagesOf(f.List()[0])); err == nil || reached.Load() {
		t.Errorf("error %v, reached %v", err, reached.Load())
	}
}
