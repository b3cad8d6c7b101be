package disagg

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/openai"
)

// TestI6AFailedPrefillFallsBackToTheDecodeReplica: with the client's own body.
func TestI6AFailedPrefillFallsBackToTheDecodeReplica(t *testing.T) {
	const nonsense = `{"choices":[{"disaggregated_params":"x"}],"prompt_token_ids":[1]}`
	for _, engine := range []string{"vllm", "trtllm"} {
		for name, c := range map[string]struct {
			prefill http.HandlerFunc
			outcome Outcome
		}{
			"500": {says(500, `{}`), Failed}, "503": {says(503, `{}`), Failed}, "no JSON": {says(200, `<html>`), Failed}, "dies": {dies, Failed},
			"too large": {says(200, strings.Repeat(" ", maxAnswerBytes+1)), Failed}, "too slow": {hangs, Timeout}, "nonsense": {says(200, nonsense), Failed},
		} {
			if name == "nonsense" && engine != "trtllm" {
				continue
			}
			p := newPair(t, engine, c.prefill, says(200, decodeSays))
			if c.outcome == Timeout { // the others need no short wait, and must not meet one
				p.legs.Timeout = func() time.Duration { return 100 * time.Millisecond }
			}
			if status, answer, err := p.ask(plainAsk, c.outcome); err != nil || status != 200 || answer != decodeSays {
				t.Errorf("I6: %s, %s: %d %s %v", engine, name, status, answer, err)
			}
			if sent := p.sent("decode"); sent.raw != plainAsk || p.fellBack != 1 || p.atLead || p.broke {
				t.Errorf("I1, I6: %s, %s: decode got %s; %+v", engine, name, sent.raw, p)
			}
		}
	}
}

func TestARefusedPrefillIsTheClients(t *testing.T) {
	const refusal = `{"error":{"message":"too long"}}`
	p := newPair(t, "vllm", says(400, refusal), says(200, decodeSays))
	if status, answer, err := p.ask(plainAsk, Refused); err != nil || status != 400 || answer != refusal || p.sent("decode") != nil || !p.atLead || p.broke {
		t.Errorf("%d %s %v %+v", status, answer, err, p)
	}
}

func TestNothingToFetchLeavesTheBodyAlone(t *testing.T) {
	p := newPair(t, "vllm", says(200, `{"choices":[{"finish_reason":"stop"}],"kv_transfer_params":null}`), says(200, decodeSays))
	if _, _, err := p.ask(plainAsk, Answered); err != nil || p.sent("decode").raw != plainAsk {
		t.Errorf("%v %+v", err, p.sent("decode"))
	}
}

func TestTRTLLMLegs(t *testing.T) {
	for _, ask := range []string{plainAsk, streamAsk} {
		p := newPair(t, "trtllm", says(200, contextAnswer), says(200, decodeSays))
		if status, answer, err := p.ask(ask, Answered); err != nil || status != 200 || answer != decodeSays {
			t.Fatalf("%d %s %v", status, answer, err)
		}
		sent := p.sent("prefill")
		first, _ := sent.body["disaggregated_params"].(map[string]any)
		if first["request_type"] != "context_only" || first["disagg_request_id"] == nil || sent.body["stream"] != false || sent.body["stream_options"] != nil {
			t.Errorf("context leg got %s", sent.raw)
		}
		sent = p.sent("decode")
		second, _ := sent.body["disaggregated_params"].(map[string]any)
		if second["request_type"] != "generation_only" || second["ctx_request_id"] != 3.0 || !strings.Contains(sent.raw, `"prompt_token_ids":[1,2]`) ||
			(ask == streamAsk) != (sent.body["stream"] == true) {
			t.Errorf("generation leg got %s", sent.raw)
		}
		if p.usage.Cached != 16 {
			t.Errorf("the prefill answer counts: %+v", p.usage)
		}
	}
}

// TestAContextLegThatEndedAnswers: there is nothing left to generate. A stream
// is made by the decode replica from the client's own body.
func TestAContextLegThatEndedAnswers(t *testing.T) {
	p := newPair(t, "trtllm", says(200, endedAnswer), says(200, decodeSays))
	if status, answer, err := p.ask(plainAsk, Answered); err != nil || status != 200 || answer != endedAnswer || p.sent("decode") != nil || !p.atLead {
		t.Errorf("%d %s %v", status, answer, err)
	}
	p = newPair(t, "trtllm", says(200, endedAnswer), says(200, decodeSays))
	if _, answer, err := p.ask(streamAsk, Answered); err != nil || answer != decodeSays || p.sent("decode").raw != streamAsk || p.atLead {
		t.Errorf("%s %v %+v", answer, err, p.sent("decode"))
	}
}

func TestOlderTRTLLMGetsNoRequestID(t *testing.T) {
	p := newPair(t, "trtllm", says(200, contextAnswer), says(200, decodeSays))
	p.try.Prefill.Labels = map[string]string{"disagg_request_id": "off"}
	if _, _, err := p.ask(plainAsk, Answered); err != nil || strings.Contains(p.sent("prefill").raw, "disagg_request_id") {
		t.Error(err, p.sent("prefill").raw)
	}
}

// TestI1TheRequestIsNeverEdited: by no leg of any engine.
func TestI1TheRequestIsNeverEdited(t *testing.T) {
	for _, engine := range []string{"vllm", "trtllm", "sglang"} {
		p := newPair(t, engine, says(200, prefillSays), says(200, decodeSays))
		p.try.Prefill.Ranked, p.try.Prefill.Ranks = true, 4
		if _, _, err := p.ask(streamAsk, Answered); err != nil || string(p.try.Body.Bytes()) != streamAsk || p.try.Body.Endpoint != openai.Chat {
			t.Errorf("I1: %s: %v %s", engine, err, p.try.Body.Bytes())
		}
	}
}
