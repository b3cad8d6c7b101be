package router

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collected is an OTLP collector that keeps what it is sent.
type collected struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*wire.Span
	raw   strings.Builder
}

func newCollected(t *testing.T) *collected {
	c := &collected{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var in otlp.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &in); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(raw)
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// named finds the one span of a name.
func (c *collected) named(t *testing.T, name string) *wire.Span {
	t.Helper()
	var found *wire.Span
	var names []string
	for _, s := range c.spans {
		names = append(names, s.Name)
		if s.Name == name {
			found = s
		}
	}
	if found == nil {
		t.Fatalf("no span %q in %q", name, names)
	}
	return found
}

func attributeOf(s *wire.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			v := a.Value
			switch {
			case v.GetStringValue() != "":
				return v.GetStringValue()
			case v.GetDoubleValue() != 0:
				return fmt.Sprint(v.GetDoubleValue())
			}
			return fmt.Sprint(v.GetIntValue())
		}
	}
	return "none"
}

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
)

// traced asks a duo with a collector behind it, and returns what was sent.
func traced(t *testing.T, engine string, prefill, decode http.HandlerFunc, edit func(*Config), header http.Header, body string) (*collected, *duo) {
	t.Helper()
	c := newCollected(t)
	d := newDuo(t, engine, prefill, decode, func(cfg *Config) {
		cfg.Tracing.Endpoint = c.URL
		if edit != nil {
			edit(cfg)
		}
	})
	req, _ := http.NewRequest(http.MethodPost, d.front.URL+"/v1/chat/completions", strings.NewReader(body))
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	d.idle()
	d.front.Close()
	d.peer.path.pairs.legs.Stop() // legs that outlive their answers: every span has ended
	if err := d.peer.tracing.Close(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, d
}

const streamed = "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"secret answer\"},\"finish_reason\":null}]}\n\n" +
	"data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n" +
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\ndata: [DONE]\n\n"

func streams(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, streamed)
}

// TestSpansOfARequest: one tree from the client's span to the try, told to the
// engine, with what was decided and measured, and nothing secret.
func TestSpansOfARequest(t *testing.T) {
	c, d := traced(t, "vllm", streams, streams, func(cfg *Config) { cfg.Routing.Disagg.Mode = "off"; cfg.IsolateBy = "X-Tenant" }, http.Header{
		"Traceparent": {"00-" + clientTrace + "-" + clientSpan + "-01"}, "Tracestate": {"vendor=1"},
		"Authorization": {"Bearer secret key"}, "X-Tenant": {"secret tenant"}, "X-Banyan-Session": {"secret session"},
	}, `{"model":"m","messages":[{"role":"user","content":"secret prompt"}],"stream":true,"max_tokens":7,"user":"secret user"}`)
	server, pick, try := c.named(t, "POST /v1/chat/completions"), c.named(t, "pick"), c.named(t, "chat")
	if len(c.spans) != 3 {
		t.Errorf("%d spans", len(c.spans))
	}
	if fmt.Sprintf("%x", server.TraceId) != clientTrace || fmt.Sprintf("%x", server.ParentSpanId) != clientSpan || server.Kind != wire.Span_SPAN_KIND_SERVER {
		t.Errorf("%v", server)
	}
	for _, child := range []*wire.Span{pick, try} {
		if string(child.ParentSpanId) != string(server.SpanId) || string(child.TraceId) != string(server.TraceId) {
			t.Errorf("%s is not the server span's child", child.Name)
		}
	}
	for key, want := range map[string]string{
		"banyan.policy": "ttft", "banyan.replica": "prefill", "banyan.matched_blocks": "0", "banyan.view_age_ms": "0", "banyan.peers": "1",
	} {
		if got := attributeOf(pick, key); got != want {
			t.Errorf("pick: %s is %s, want %s", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.request.max_tokens": "7", "gen_ai.usage.input_tokens": "40",
		"gen_ai.usage.output_tokens": "3", "gen_ai.usage.cache_read.input_tokens": "16", "http.response.status_code": "200", "server.address": "127.0.0.1",
		"error.type": "none",
	} {
		if got := attributeOf(try, key); got != want {
			t.Errorf("try: %s is %s, want %s", key, got, want)
		}
	}
	if len(try.Events) != 1 || try.Events[0].Name != "first_token" {
		t.Errorf("%v", try.Events)
	}
	got := d.seen()[0].header
	if want := fmt.Sprintf("00-%s-%x-01", clientTrace, try.SpanId); got.Get("Traceparent") != want || got.Get("Tracestate") != "vendor=1" {
		t.Errorf("the engine was told %q %q, want %q", got.Get("Traceparent"), got.Get("Tracestate"), want)
	}
	if strings.Contains(c.raw.String(), "secret") {
		t.Error("a secret was sent to the collector")
	}
}

// TestSpansOfTwoLegs: both legs are children of the try, and each engine is
// told of its own.
func TestSpansOfTwoLegs(t *testing.T) {
	for _, engine := range []string{"vllm", "sglang"} {
		c, d := traced(t, engine, says(200, leadAnswer), says(200, decodeAnswer), nil, http.Header{}, plainAsk)
		try := c.named(t, "chat")
		for role, name := range map[string]string{"prefill": "prefill leg", "decode": "decode leg"} {
			leg := c.named(t, name)
			if string(leg.ParentSpanId) != string(try.SpanId) || attributeOf(leg, "banyan.replica") != role {
				t.Errorf("%s: %v", engine, leg)
			}
			want := fmt.Sprintf("00-%x-%x-01", try.TraceId, leg.SpanId)
			for _, call := range d.seen() {
				if call.role == role && call.header.Get("Traceparent") != want {
					t.Errorf("%s: the %s replica was told %q, want %q", engine, role, call.header.Get("Traceparent"), want)
				}
			}
		}
	}
}

// TestUnsampledTracesPassOn: the client's word on sampling holds, and reaches
// the engine.
func TestUnsampledTracesPassOn(t *testing.T) {
	c, d := traced(t, "vllm", streams, streams, func(cfg *Config) { cfg.Routing.Disagg.Mode = "off" },
		http.Header{"Traceparent": {"00-" + clientTrace + "-" + clientSpan + "-00"}}, plainAsk)
	got := d.seen()[0].header.Get("Traceparent")
	if len(c.spans) != 0 || !strings.HasPrefix(got, "00-"+clientTrace+"-") || !strings.HasSuffix(got, "-00") {
		t.Errorf("%d spans, %q", len(c.spans), got)
	}
}

// TestTraceparentPassesWhileTracingIsOff: unchanged, even if it makes no sense,
// and none is minted.
func TestTraceparentPassesWhileTracingIsOff(t *testing.T) {
	for _, given := range []string{"", "nonsense", "00-" + clientTrace + "-" + clientSpan + "-01"} {
		d := newDuo(t, "vllm", streams, streams, func(cfg *Config) { cfg.Routing.Disagg.Mode = "off" })
		req, _ := http.NewRequest(http.MethodPost, d.front.URL+"/v1/chat/completions", strings.NewReader(plainAsk))
		req.Header.Set("Content-Type", "application/json")
		if given != "" {
			req.Header.Set("Traceparent", given)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := d.seen()[0].header.Get("Traceparent"); got != given {
			t.Errorf("%q became %q", given, got)
		}
	}
}

// TestAFailedTryIsSeen: the retry is an event, the failed try an error, the
// answer none.
func TestAFailedTryIsSeen(t *testing.T) {
	c, _ := traced(t, "vllm", says(503, `{}`), says(503, `{}`), func(cfg *Config) {
		cfg.Routing.Disagg.Mode = "off"
		for i := range cfg.Replicas {
			cfg.Replicas[i].Role = "both"
		}
	}, http.Header{}, plainAsk)
	server := c.named(t, "POST /v1/chat/completions")
	if len(server.Events) == 0 || server.Events[0].Name != "retry" || attributeOf(server, "http.response.status_code") != "503" ||
		server.Status.GetCode() != wire.Status_STATUS_CODE_ERROR {
		t.Errorf("%v", server)
	}
	if try := c.named(t, "chat"); attributeOf(try, "error.type") != "status" {
		t.Errorf("%v", try)
	}
}
