package router

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	contextAnswer = `{"choices":[{"finish_reason":"length","disaggregated_params":{"request_type":"context_only","ctx_request_id":3}}],` +
		`"prompt_token_ids":[1,2],"usage":{"prompt_tokens":40,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":16}}}`
	endedAnswer = `{"choices":[{"message":{"content":"No."},"finish_reason":"stop"}],"usage":{"prompt_tokens":40,"completion_tokens":1}}`
)

func TestTRTLLMLegs(t *testing.T) {
	for _, ask := range []string{plainAsk, streamAsk} {
		d := newDuo(t, "trtllm", says(200, contextAnswer), says(200, decodeAnswer), nil)
		if status, replica, answer := d.ask(ask); status != 200 || replica != "decode" || answer != decodeAnswer {
			t.Fatalf("%d %s %s", status, replica, answer)
		}
		calls := d.seen()
		if len(calls) != 2 || calls[0].role != "prefill" || calls[1].role != "decode" {
			t.Fatalf("%+v", calls)
		}
		first, _ := calls[0].body["disaggregated_params"].(map[string]any)
		if first["request_type"] != "context_only" || first["disagg_request_id"] == nil || calls[0].body["stream"] != false || calls[0].body["stream_options"] != nil {
			t.Errorf("context leg got %s", calls[0].raw)
		}
		second, _ := calls[1].body["disaggregated_params"].(map[string]any)
		if second["request_type"] != "generation_only" || second["ctx_request_id"] != 3.0 || !strings.Contains(calls[1].raw, `"prompt_token_ids":[1,2]`) ||
			(ask == streamAsk) != (calls[1].body["stream"] == true) {
			t.Errorf("generation leg got %s", calls[1].raw)
		}
		d.idle()
		if d.legs(legAnswered) != 1 || counterValue(d.peer.metrics.cached) != 16 {
			t.Errorf("answered %d, cached %d", d.legs(legAnswered), counterValue(d.peer.metrics.cached))
		}
	}
}

func TestAFailedContextLegFallsBack(t *testing.T) {
	for name, prefill := range map[string]http.HandlerFunc{
		"500": says(500, `{}`), "no JSON": says(200, `<html>`), "nonsense": says(200, `{"choices":[{"disaggregated_params":"x"}],"prompt_token_ids":[1]}`),
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		d := newDuo(t, "trtllm", prefill, says(200, decodeAnswer), func(cfg *Config) {
			if name == "hangs" {
				cfg.Routing.Disagg.Timeout = 200 * time.Millisecond
			}
		})
		if status, replica, answer := d.ask(plainAsk); status != 200 || replica != "decode" || answer != decodeAnswer {
			t.Errorf("%s: %d %s %s", name, status, replica, answer)
		}
		if calls := d.seen(); len(calls) != 2 || calls[1].raw != plainAsk {
			t.Errorf("%s: %+v", name, calls)
		}
		d.idle()
	}
}

// TestAContextLegThatEndedAnswers: there is nothing left to generate. A stream
// is made by the decode replica from the client's own body.
func TestAContextLegThatEndedAnswers(t *testing.T) {
	d := newDuo(t, "trtllm", says(200, endedAnswer), says(200, decodeAnswer), nil)
	if status, replica, answer := d.ask(plainAsk); status != 200 || replica != "prefill" || answer != endedAnswer || len(d.seen()) != 1 {
		t.Errorf("%d %s %s", status, replica, answer)
	}
	if status, replica, _ := d.ask(streamAsk); status != 200 || replica != "decode" || d.seen()[2].body["disaggregated_params"] != nil {
		t.Errorf("%d %s %+v", status, replica, d.seen())
	}
	d.idle()
}

func TestOlderTRTLLMGetsNoRequestID(t *testing.T) {
	d := newDuo(t, "trtllm", says(200, contextAnswer), says(200, decodeAnswer), func(cfg *Config) {
		for i := range cfg.Replicas {
			cfg.Replicas[i].Labels = map[string]string{"disagg_request_id": "off"}
		}
	})
	if d.ask(plainAsk); strings.Contains(d.seen()[0].raw, "disagg_request_id") {
		t.Error(d.seen()[0].raw)
	}
}
