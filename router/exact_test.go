package router

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/proxy"
	"github.com/banyan-llm/banyan/router/token"
)

// An engine whose events are followed and whose tokens nobody tells is named:
// in the log once, in the status and among its problems, with the cure.
func TestExactRoutingThatIsOffIsTold(t *testing.T) {
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":{"message":"Scale-out endpoints are disabled."}}`)
	}))
	defer closed.Close()
	for name, c := range map[string]struct {
		spec fleet.Spec
		body string
		cure string // empty: nothing is wrong
	}{
		"a vLLM that tells nothing":  {fleet.Spec{Engine: "vllm", Events: "tcp://127.0.0.1:1"}, `{"model":"m","messages":[]}`, "--enable-scale-out"},
		"an old SGLang":              {fleet.Spec{Engine: "sglang", Events: "tcp://127.0.0.1:1"}, `{"model":"m","messages":[]}`, "SGLang 0.5.23"},
		"an old TensorRT-LLM":        {fleet.Spec{Engine: "trtllm", Events: "poll"}, `{"model":"m","messages":[]}`, "/_internal/tokenize"},
		"no events: nothing to lose": {fleet.Spec{Engine: "vllm"}, `{"model":"m","messages":[]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			c.spec.Name, c.spec.URL, c.spec.Model = "r0", closed.URL, "m"
			cfg := DefaultConfig()
			cfg.HTTP.Listen, cfg.Admin.Listen, cfg.Mesh.Bind = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
			cfg.Mesh.Insecure, cfg.Replicas, cfg.Limits.Tokenize = true, []fleet.Spec{c.spec}, 20*time.Second
			p, err := New(cfg, Options{Version: "test", Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			defer p.mesh.stop()
			body, err := openai.Parse(openai.Chat, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				pr, err := p.path.prompts.readPrompt(t.Context(), &proxy.Call{Body: body}, "", &scratch{candidateSet: candidateSet{replicas: p.fleet.List()}})
				if err != nil || pr.keys.Scheme != token.Text {
					t.Fatalf("%+v, %v", pr, err)
				}
			}
			reg := prometheus.NewRegistry()
			reg.MustRegister(metrics.Collector(func() *metrics.State { return stateOf(p) }))
			if n := seriesOf(t, reg, "banyan_prompt_keys_total", map[string]string{"model": "m", "rung": "text"}); n != 5 {
				t.Errorf("%v prompts by text were counted, not 5", n)
			}
			keys := p.path.prompts.keyStatus(p.tokens.Modes())
			if len(keys) != 1 || keys[0].Model != "m" || keys[0].API != "chat" || keys[0].Exact || keys[0].Off != (c.cure != "") {
				t.Fatalf("%+v", keys)
			}
			problems := problemsOf(p, "Exact routing is off for")
			warned := strings.Count(log.String(), "exact routing is off")
			if c.cure == "" {
				if len(problems) > 0 || warned > 0 {
					t.Errorf("told %+v, %s", problems, &log)
				}
				return
			}
			if len(problems) != 1 || !strings.Contains(problems[0].Help, c.cure) ||
				!strings.Contains(problems[0].Text, "Exact routing is off for chat prompts of m: /") || !strings.Contains(problems[0].Text, "answered 403") || strings.Contains(problems[0].Text, "Scale-out") {
				t.Errorf("told %+v, want the cure %s", problems, c.cure)
			}
			if warned != 1 || !strings.Contains(log.String(), c.cure) {
				t.Errorf("warned %d times: %s", warned, &log)
			}
		})
	}
}

// seriesOf adds up the counters of one name that have these labels.
func seriesOf(t *testing.T, from prometheus.Gatherer, name string, labels map[string]string) (sum float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			match := 0
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == l.GetValue() {
					match++
				}
			}
			if match == len(labels) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
