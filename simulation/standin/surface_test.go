package standin

import (
	"net/http"
	"strings"
	"testing"
)

func TestBadRequestsGetVLLMsErrors(t *testing.T) {
	s := start(t, Config{MaxModelLen: 100})
	for _, c := range []struct {
		path, body string
		code       int
		word       string
	}{
		{"/v1/chat/completions", `{`, 400, "parsing"},
		{"/v1/chat/completions", `{"messages": []}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages": "x"}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages": [{"role": "king", "content": ""}]}`, 400, "role"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": 3}]}`, 400, "content"},
		{"/v1/chat/completions", `{"model": "other", "messages": [{"role": "user", "content": "x"}]}`, 404, "does not exist"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}`, 400, "at least 1"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "max_tokens": 99}`, 400, "context length"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "n": 2}`, 400, "n=1"},
		{"/v1/completions", `{}`, 400, "prompt"},
		{"/v1/completions", `{"prompt": []}`, 400, "prompt"},
		{"/v1/completions", `{"prompt": [[]]}`, 400, "empty"},
		{"/v1/completions", `{"prompt": [131072]}`, 400, "vocabulary"},
		{"/v1/completions", `{"prompt": {"a": 1}}`, 400, "prompt"},
		{"/v1/completions", `{"prompt": "` + words(1, 120) + `"}`, 400, "context length"},
		{"/v1/nothing", `{}`, 404, "Not Found"},
	} {
		res, err := http.Post(s.URL()+c.path, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Error struct {
				Message, Type string
				Code          int
			}
		}
		if code := decode(t, res, &e); code != c.code || e.Error.Code != c.code || !strings.Contains(e.Error.Message, c.word) {
			t.Errorf("%s: %d %+v, want %d with %q", c.body, code, e, c.code, c.word)
		}
	}
	flat := start(t, Config{Engine: SGLang})
	var e struct{ Object, Message string }
	if code := post(t, flat, "/v1/completions", obj{}, &e); code != 400 || e.Object != "error" || e.Message == "" {
		t.Errorf("sglang: %d %+v", code, e)
	}
}

func TestMetricsTellTheLoad(t *testing.T) {
	s := start(t, Config{Model: "m/x", Rank: 3, Blocks: 100})
	in := chatBody(words(1, 50), 2)
	in["model"] = "m/x"
	post(t, s, "/v1/chat/completions", in, nil)
	post(t, s, "/v1/chat/completions", in, nil)
	var text string
	get(t, s, "/metrics", &text)
	for _, line := range []string{
		`vllm:num_requests_running{model_name="m/x",engine="3"} 0`,
		`vllm:num_requests_waiting{model_name="m/x",engine="3"} 0`,
		`vllm:kv_cache_usage_perc{model_name="m/x",engine="3"} 0`,
		`vllm:prefix_cache_queries_total{model_name="m/x",engine="3"} 108`,
		`vllm:prefix_cache_hits_total{model_name="m/x",engine="3"} 48`,
		`vllm:cache_config_info{block_size="16",num_gpu_blocks="100",`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	var models struct {
		Data []struct {
			ID  string
			Max int `json:"max_model_len"`
		}
	}
	if get(t, s, "/v1/models", &models); len(models.Data) != 1 || models.Data[0].ID != "m/x" || models.Data[0].Max != 1600 {
		t.Errorf("models %+v", models)
	}
	for _, path := range []string{"/health", "/ping", "/version"} {
		if code := get(t, s, path, nil); code != 200 && path != "/version" {
			t.Errorf("%s answers %d", path, code)
		}
	}
	s.Set(Fault{Unhealthy: ptr(true), NoMetrics: ptr(true), NoRender: ptr(true)})
	if code := get(t, s, "/health", nil); code != 503 {
		t.Errorf("unhealthy answers %d", code)
	}
	if get(t, s, "/metrics", &text); strings.Contains(text, "vllm:") {
		t.Error("metrics without statistics have series")
	}
	if code := post(t, s, "/tokenize", obj{"prompt": "x"}, nil); code != 404 {
		t.Errorf("tokenize that is off answers %d", code)
	}
}

func TestLoadHeader(t *testing.T) {
	s := start(t, Config{})
	for form, want := range map[string]string{"JSON": `JSON {"named_metrics"`, "text": "TEXT named_metrics.kv_cache_usage_perc=", "": ""} {
		req, _ := http.NewRequest(http.MethodPost, s.URL()+"/v1/completions", strings.NewReader(`{"prompt": "x", "max_tokens": 1}`))
		req.Header.Set("endpoint-load-metrics-format", form)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		decode(t, res, nil)
		if got := res.Header.Get("endpoint-load-metrics"); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q", form, got)
		}
	}
}

func TestConfigReportsEveryFault(t *testing.T) {
	_, err := New(Config{
		Engine: "x", Layout: "y", TimeScale: -1, ReplayFrames: 3, BufferSteps: -1, DefaultOutput: -1, Events: "udp://x", Replay: "y",
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, word := range []string{"engine", "layout", "time-scale", "replay-frames", "replay-steps", "default output", "events", "replay"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %s", err, word)
		}
	}
	for _, cfg := range []Config{{Profile: "none"}, {Blocks: -5}, {Listen: "nowhere:-1"}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("accepted %+v", cfg)
		}
	}
}
