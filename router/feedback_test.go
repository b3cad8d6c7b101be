package router

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/openai"
	"github.com/banyan-llm/banyan/router/policy"
)

// What an answer says of its cached tokens is held against what was believed,
// streamed or not. An engine that leaves a nought out is told from one that
// never says: a number must have been seen.
func TestAnswersAreHeldAgainstWhatWasBelieved(t *testing.T) {
	var details atomic.Value // of the next answer
	var asked atomic.Bool    // for the usage of a stream
	var d *duo
	answer := func(w http.ResponseWriter, _ *http.Request) {
		usage := fmt.Sprintf(`{"prompt_tokens":40,"completion_tokens":1,"prompt_tokens_details":%s}`, details.Load())
		calls := d.seen()
		raw := calls[len(calls)-1].raw
		if !strings.Contains(raw, `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"choices":[{"message":{"content":"x"}}],"usage":%s}`, usage)
			return
		}
		asked.Store(strings.Contains(raw, `"include_usage":true`))
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", usage)
	}
	d = newDuo(t, "vllm", answer, answer, func(c *Config) {
		c.Routing.Disagg.Mode = policy.DisaggOff
		c.Replicas = c.Replicas[:1]
		c.Replicas[0].Role = ""
	})
	errors := func() (n uint64, sum float64) {
		var m dto.Metric
		if err := d.peer.metrics.PredictionError.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum()
	}
	ask := func(body, says string, count uint64, sum float64) {
		t.Helper()
		details.Store(says)
		status, _, got := d.ask(body)
		if status != http.StatusOK || strings.Contains(body, "stream") && strings.Contains(got, "usage") {
			t.Fatalf("%d %s", status, got)
		}
		d.idle()
		eventually(t, "the answer is counted", func() bool {
			n, s := errors()
			return n == count && s == sum
		})
	}
	ask(plainAsk, "null", 0, 0) // it may say nothing ever
	ask(plainAsk, `{"cached_tokens":16}`, 1, 16)
	ask(plainAsk, "null", 2, 16) // now nothing means nought, as was believed
	ask(streamAsk, `{"cached_tokens":24}`, 3, 40)
	ask(streamAsk, "null", 4, 40)
	if !asked.Load() {
		t.Error("the usage of a stream was not asked for")
	}
	r := d.peer.fleet.List()[0]
	if !r.Reports() {
		t.Error("the replica is known to report")
	}
}

// TestHiddenCachedTokensAreNoticed: answers that should tell cached tokens, eight
// in a row, and none does. vLLM's Responses always tell them: they say nothing of
// the other APIs, whose missing number must not be taken for nought.
func TestHiddenCachedTokensAreNoticed(t *testing.T) {
	told, silent := openai.Usage{Known: true, CachedKnown: true}, openai.Usage{Known: true}
	r := &fleet.Replica{}
	note := func(api openai.Endpoint, matched int, u openai.Usage, times int) {
		for range times {
			(&ticket{api: api, matched: matched, replica: r}).noteReport(&u)
		}
	}
	note(openai.Responses, 16, told, 1)
	note(openai.Chat, 0, silent, 20)
	note(openai.Embeddings, 16, silent, 20)
	note(openai.Chat, 16, openai.Usage{}, 20)
	if r.Reports() || r.HidesCached() {
		t.Errorf("reports %v, hides %v", r.Reports(), r.HidesCached())
	}
	note(openai.Chat, 16, silent, 8)
	if r.Reports() || !r.HidesCached() {
		t.Errorf("reports %v, hides %v", r.Reports(), r.HidesCached())
	}
	note(openai.Completions, 16, told, 1)
	note(openai.Messages, 16, silent, 20)
	if !r.Reports() || r.HidesCached() {
		t.Errorf("it told once: reports %v, hides %v", r.Reports(), r.HidesCached())
	}
}
