package fleet

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/crdt"
)

func TestSpecFaultsAreAllReportedByKey(t *testing.T) {
	err := ValidateSpecs([]Spec{
		{URL: "ftp://x"},
		{URL: "http://a:1", Engine: "tgi", Role: "boss", Events: "5557", Priority: "urgent"},
		{URL: "http://a:1/", Rank: -1},
		{URL: "http://b:1", Name: "n"},
		{URL: "http://c:1", Name: "n"},
		{URL: "gpu:1", Name: "n"},
		{URL: "http://d:99999"},
	})
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{
		"replicas[0].url", "replicas[1].engine", "replicas[1].role", "replicas[1].priority", "replicas[1].events", "replicas[2].rank", "replicas[4].name",
		"replicas[5].url", "replicas[5].name", "replicas[6].url: port",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in:\n%v", want, err)
		}
	}
}

func TestNameDefaultsToHostPortAndRank(t *testing.T) {
	if s := (Spec{URL: "http://h:8000/", Rank: 3}).withDefaults(); s.Name != "h:8000/3" || s.Stream() != "http://h:8000#3" {
		t.Errorf("name %q, stream %q", s.Name, s.Stream())
	}
}

func TestSetKeepsReplicasThatStay(t *testing.T) {
	f := New(Config{})
	now := time.Unix(1, 0)
	f.Set([]Spec{{URL: "http://a:1"}, {URL: "http://b:1"}}, now)
	a := f.Get("a:1")
	f.Set([]Spec{{URL: "http://a:1"}, {URL: "http://c:1"}}, now)
	if f.Get("a:1") != a {
		t.Error("a lost its state")
	}
	if f.Get("b:1") != nil || f.Get("c:1") == nil {
		t.Error("the list did not change")
	}
}

func TestServesTellsAdaptersFromModels(t *testing.T) {
	models, err := parseModels([]byte(`{"data":[{"id":"llama","max_model_len":8192,"root":"/m"},{"id":"sql","parent":"llama"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r := newReplica(Spec{URL: "http://a:1"}, time.Time{})
	if _, ok := r.Serves("llama"); ok {
		t.Error("serves a model before it told any")
	}
	r.models.Store(&models)
	for model, want := range map[string]struct {
		lora string
		ok   bool
	}{"llama": {"", true}, "sql": {"sql", true}, "gpt": {"", false}, "": {"", false}} {
		if lora, ok := r.Serves(model); lora != want.lora || ok != want.ok {
			t.Errorf("%q: lora %q, %v", model, lora, ok)
		}
	}
}

// Clients that take the first model want a base model, and the one that the
// engine names first.
func TestModelsKeepTheEnginesOrder(t *testing.T) {
	f := New(Config{})
	f.Set([]Spec{{URL: "http://a:1"}, {URL: "http://b:1"}}, time.Time{})
	for i, page := range []string{
		`{"data":[{"id":"z"},{"id":"sql","parent":"z"},{"id":"a"}]}`,
		`{"data":[{"id":"code","parent":"z"},{"id":"z"},{"id":"m"}]}`,
	} {
		models, err := parseModels([]byte(page))
		if err != nil {
			t.Fatal(err)
		}
		f.List()[i].models.Store(&models)
	}
	var got []string
	for _, m := range f.ModelNames() {
		got = append(got, m.ID)
	}
	if !equal(got, "z", "a", "m", "sql", "code") {
		t.Errorf("%q", got)
	}
}

// What replicas claim of one model's context, the smallest holds: requests of
// that length may go to any of them.
func TestTheSmallestContextHolds(t *testing.T) {
	f := New(Config{})
	f.Set([]Spec{{URL: "http://a:1"}, {URL: "http://b:1"}, {URL: "http://c:1"}}, time.Time{})
	for i, page := range []string{
		`{"data":[{"id":"m","max_model_len":2000000000}]}`, `{"data":[{"id":"m","max_model_len":4096}]}`, `{"data":[{"id":"m"},{"id":"n"}]}`,
	} {
		models, err := parseModels([]byte(page))
		if err != nil {
			t.Fatal(err)
		}
		f.List()[i].models.Store(&models)
	}
	if got := f.ModelNames(); len(got) != 2 || got[0].MaxLen != 4096 || got[1].MaxLen != 0 {
		t.Errorf("%+v", got)
	}
}

func TestParseMetricsOfEachEngine(t *testing.T) {
	for name, tc := range map[string]struct {
		page     string
		running  int32
		waiting  int32
		use      float32
		capacity int64
	}{
		"vllm": {`# HELP x
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 30.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1.0
`, 3, 2, .5, 1600},
		"old vllm":  {"vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.25\n", 1, 0, .25, 0},
		"under ray": {"ray_vllm_num_requests_running{engine=\"0\"} 4\n", 4, 0, 0, 0},
		"sglang":    {"sglang:num_running_reqs{tp_rank=\"0\"} 5\nsglang:num_queue_reqs 6\nsglang:token_usage 0.1\nsglang:max_total_num_tokens 4096\n", 5, 6, .1, 4096},
		"trtllm":    {"trtllm_num_requests_running 7\ntrtllm_num_requests_waiting 8\ntrtllm_kv_cache_utilization 0.75\ntrtllm_kv_cache_max_blocks 10\ntrtllm_kv_cache_tokens_per_block 32\n", 7, 8, .75, 320},
		"huge":      {"vllm:num_requests_running 1e14\n", math.MaxInt32, 0, 0, 0},
	} {
		p := parseMetrics([]byte(tc.page), 0)
		if s := p.scrape; !p.found || s.Running != tc.running || s.Waiting != tc.waiting || s.KVUse != tc.use || s.Capacity != tc.capacity {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := parseMetrics([]byte("go_goroutines 3\nvllmx:num_requests_running 3\n"), 0); p.found || p.engine != "" {
		t.Error("I7: a page without load series reads as idle")
	}
}

func FuzzParseMetrics(f *testing.F) {
	f.Add([]byte("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n"))
	f.Add([]byte("a{b=\"c} 1\n{} \nx 1e309\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		p := parseMetrics(page, 0)
		if s := p.scrape; s.Running < 0 || s.Waiting < 0 || !(s.KVUse >= 0 && s.KVUse <= 1) || s.Capacity < 0 || p.blockSize < 0 || p.blockSize > maxBlockSize {
			t.Errorf("impossible load %+v", p)
		}
	})
}

// engine is a replica that can be told to fail.
func engine(t *testing.T, healthy *atomic.Bool) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !healthy.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
		case r.URL.Path == "/metrics":
			fmt.Fprint(w, "vllm:num_requests_running 9\n")
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

// A web server behind a replica's address is told once, with the address.
func TestAReplicaThatIsNoLLMServerIsToldOnce(t *testing.T) {
	var mended atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health":
		case mended.Load():
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	var log strings.Builder
	f := New(Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	f.Set([]Spec{{Name: "r0", URL: srv.URL}}, time.Now())
	w := &watcher{fleet: f}
	w.list(f.List())
	now := time.Now()
	for i := range 10 {
		mended.Store(i > 5)
		w.step(t.Context(), now.Add(time.Duration(i)*time.Hour))
	}
	for _, once := range []string{"gets no requests: replica=r0 url=" + srv.URL, "cure=", "replica usable again: replica=r0"} {
		if strings.Count(log.String(), once) != 1 {
			t.Errorf("%q is not told once:\n%s", once, log.String())
		}
	}
}

func TestFleetWatchesHealthModelsAndLoad(t *testing.T) {
	var healthy atomic.Bool
	healthy.Store(true)
	srv := engine(t, &healthy)
	var running atomic.Int32
	f := New(Config{
		Probe: 20 * time.Millisecond, Scrape: 20 * time.Millisecond,
		Scraped: func(_ crdt.StreamID, s crdt.Scrape) { running.Store(s.Running) },
	})
	f.Set([]Spec{{URL: srv.URL}}, time.Now())
	r := f.List()[0]
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	eventually(t, "models read", func() bool { _, ok := r.Serves("m"); return ok })
	eventually(t, "load read", func() bool { return running.Load() == 9 })
	healthy.Store(false)
	eventually(t, "replica down", func() bool { return !r.Up() })
	if h := r.Health(); h.Reason == "" {
		t.Error("a replica is down without a reason")
	}
	healthy.Store(true)
	eventually(t, "replica up again", r.Up)
	cancel()
	<-done
}

func TestHugePagesAreRefused(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 50 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	f := New(Config{})
	f.Set([]Spec{{URL: srv.URL, Engine: "vllm"}}, time.Now())
	if _, err := readLoad(t.Context(), f.pagesOf(f.List()[0]), f.List()[0], false); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("error %v", err)
	}
}
