package disagg

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/openai"
)

func parse(t *testing.T, endpoint openai.Endpoint, body string) *openai.Request {
	t.Helper()
	r, err := openai.Parse(endpoint, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// same compares JSON by value.
func same(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%s: %v: %s", what, err, got)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestSuits(t *testing.T) {
	for body, want := range map[string]bool{
		`{"prompt":"a"}`: true,
		`{"prompt":"a","n":1,"echo":false,"best_of":null}`: true,
		`{"prompt":["a"]}`:                                     true,
		`{"prompt":["a","b"]}`:                                 false,
		`{"prompt":"a","n":2}`:                                 false,
		`{"prompt":"a","max_tokens":1}`:                        false,
		`{"prompt":"a","echo":true}`:                           false,
		`{"prompt":"a","best_of":2}`:                           false,
		`{"prompt":"a","prompt_logprobs":1}`:                   false,
		`{"prompt":"a","use_beam_search":true}`:                false,
		`{"prompt":[1,2,3],"prompt_logprobs":0,"stream":true}`: true,
	} {
		if got := Suits(parse(t, openai.Completions, body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
	if !Suits(parse(t, openai.Chat, `{"messages":[]}`)) || Suits(parse(t, openai.Embeddings, `{"input":"a"}`)) {
		t.Error("endpoints")
	}
}

func TestNIXLBodies(t *testing.T) {
	const asked = `"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,` +
		`"remote_block_ids":null,"remote_host":null,"remote_port":null}`
	for body, want := range map[string]string{
		`{"model":"m","messages":[]}`: `{"model":"m","messages":[],"stream":false,"max_tokens":1,` + asked + `}`,
		`{"messages":[],"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":90,"min_tokens":5,"seed":7}`: `
			{"messages":[],"stream":false,"max_completion_tokens":1,"max_tokens":1,"seed":7,` + asked + `}`,
		`{"messages":[],"max_tokens":4,"min_completion_tokens":3}`: `{"messages":[],"max_tokens":1,"stream":false,` + asked + `}`,
	} {
		r := parse(t, openai.Chat, body)
		same(t, "prefill", nixlPrefill(r), want)
		if string(r.Bytes()) != body {
			t.Errorf("I1: edited to %s", r.Bytes())
		}
	}
}

func TestNIXLDecodeGetsWhatPrefillSaid(t *testing.T) {
	const params = `{"do_remote_prefill":true, "remote_block_ids":[[1,2],[9007199254740993]],"tp_size":2,"new_field":{"a":1e400}}`
	const body = `{"messages":[],"stream":true,"max_tokens":9}`
	a, err := readNIXL([]byte(`{"id":"x","choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":40,"completion_tokens":1,` +
		`"prompt_tokens_details":{"cached_tokens":16}},"kv_transfer_params":` + params + `}`))
	if err != nil || a.Finish != "length" || a.Usage.Prompt != 40 || a.Usage.Cached != 16 {
		t.Fatalf("%+v %v", a, err)
	}
	r := parse(t, openai.Chat, body)
	if got := string(nixlDecode(r, a)); got != `{"messages":[],"stream":true,"max_tokens":9,"kv_transfer_params":`+params+`}` {
		t.Errorf("I2: %s", got)
	}
	if string(r.Bytes()) != body {
		t.Errorf("I1: edited to %s", r.Bytes())
	}
	for _, none := range []string{`{}`, `{"kv_transfer_params":null}`, `{"kv_transfer_params":{}}`} {
		a, err := readNIXL([]byte(none))
		if err != nil || string(nixlDecode(r, a)) != body {
			t.Errorf("%s: %v %s", none, err, nixlDecode(r, a))
		}
	}
	for _, bad := range []string{``, `<html>`, `[]`, `{"choices":3}`} {
		if _, err := readNIXL([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzReadAnswers(f *testing.F) {
	f.Add([]byte(`{"kv_transfer_params":{"a":[1]},"choices":[{"finish_reason":"length","disaggregated_params":{"x":1}}],"prompt_token_ids":[1]}`))
	f.Add([]byte(`{"choices":[null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := parse(t, openai.Completions, `{"prompt":"a"}`)
		if a, err := readNIXL(body); err == nil && !json.Valid(nixlDecode(r, a)) {
			t.Errorf("%s", nixlDecode(r, a))
		}
		if a, err := readTRTLLM(body); err == nil && !json.Valid(trtllmGeneration(r, a)) {
			t.Errorf("%s", trtllmGeneration(r, a))
		}
		if whole, err := trtllmWhole(body); err == nil && !json.Valid(whole) {
			t.Errorf("%s", whole)
		}
	})
}

func TestSGLangBoth(t *testing.T) {
	const body = `{"messages":[],"stream":true}`
	r := parse(t, openai.Chat, body)
	got := string(sglangBoth(r, "fd00::1", 8998, 1<<62))
	if got != `{"messages":[],"stream":true,"bootstrap_host":"[fd00::1]","bootstrap_port":8998,"bootstrap_room":4611686018427387904}` {
		t.Error(got)
	}
	if string(r.Bytes()) != body {
		t.Errorf("I1: edited to %s", r.Bytes())
	}
}

func TestRoomsArePositiveAndNeverZero(t *testing.T) {
	for in, want := range map[string]uint64{
		"\xff\xff\xff\xff\xff\xff\xff\xff":                                 1<<63 - 1,
		"\x00\x00\x00\x00\x00\x00\x00\x80\x01\x00\x00\x00\x00\x00\x00\x00": 1, // I3: the first draw is 0 without its sign
	} {
		if got, err := drawRoom(strings.NewReader(in)); err != nil || got != want {
			t.Errorf("I3: %d %v", got, err)
		}
	}
	a, _ := drawRoom(nil)
	b, _ := drawRoom(nil)
	if a == b {
		t.Error("I3: two rooms are equal")
	}
}

func TestUsageOfStreams(t *testing.T) {
	stream := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
	if u := usageOf("text/event-stream; charset=utf-8", []byte(stream)); !u.Known || u.Prompt != 9 {
		t.Errorf("%+v", u)
	}
	if u := usageOf("application/json", []byte(`{"usage":{"prompt_tokens":3}}`)); u.Prompt != 3 {
		t.Errorf("%+v", u)
	}
}

func TestARoomOfARankIsThatRanksRoom(t *testing.T) {
	for _, room := range []uint64{1, 2, 7, 1 << 62, math.MaxInt64} {
		for ranks := 2; ranks < 9; ranks++ {
			for rank := range ranks {
				if got := roomOfRank(room, rank, ranks); got%uint64(ranks) != uint64(rank) || got == 0 || got > math.MaxInt64 {
					t.Errorf("room %d of rank %d of %d is %d", room, rank, ranks, got)
				}
			}
		}
		if roomOfRank(room, 0, 0) != room || roomOfRank(room, 5, 2) != room {
			t.Error("a server of one rank, or a strange rank, changes the room")
		}
	}
}

func TestTRTLLMBodies(t *testing.T) {
	const body = `{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true},"max_tokens":9}`
	r := parse(t, openai.Chat, body)
	same(t, "context", trtllmContext(r, 77), `{"model":"m","messages":[],"stream":false,"max_tokens":9,
		"disaggregated_params":{"request_type":"context_only","disagg_request_id":77}}`)
	same(t, "context without an id", trtllmContext(r, 0), `{"model":"m","messages":[],"stream":false,"max_tokens":9,
		"disaggregated_params":{"request_type":"context_only"}}`)
	const state = `"first_gen_tokens":[5],"ctx_request_id":9007199254740993,"encoded_opaque_state":"AA==","new":{"x":1e400}}`
	a, err := readTRTLLM([]byte(`{"choices":[{"finish_reason":"length","disaggregated_params":{"request_type":"context_only",` + state +
		`}],"prompt_token_ids":[1,2,3],"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}`))
	if err != nil || a.Over || a.Usage.Cached != 2 {
		t.Fatalf("%+v %v", a, err)
	}
	want := `{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true},"max_tokens":9,` +
		`"disaggregated_params":{"request_type":"generation_only",` + state + `,"prompt_token_ids":[1,2,3]}`
	if got := string(trtllmGeneration(r, a)); got != want {
		t.Errorf("I2: %s", got)
	}
	if string(r.Bytes()) != body {
		t.Errorf("I1: edited to %s", r.Bytes())
	}
	c := parse(t, openai.Completions, `{"prompt":"a b c"}`)
	same(t, "generation of a completion", trtllmGeneration(c, prefillAnswer{Transfer: []byte(`{}`), Prompt: []byte(`[7]`)}), `{"prompt":[7],"disaggregated_params":{}}`)
	for _, none := range []string{
		`{"choices":[]}`, `{"choices":[{"finish_reason":"length"}],"prompt_token_ids":[1]}`,
		`{"choices":[{"finish_reason":"not_finished","disaggregated_params":{"a":1}}]}`,
	} {
		a, err := readTRTLLM([]byte(none))
		if err != nil || a.Over || string(trtllmGeneration(r, a)) != body {
			t.Errorf("%s: %+v %v", none, a, err)
		}
	}
	for _, bad := range []string{``, `<html>`, `{"choices":[{"disaggregated_params":3}],"prompt_token_ids":[1]}`} {
		if a, err := readTRTLLM([]byte(bad)); err == nil {
			t.Errorf("%q was read: %+v", bad, a)
		}
	}
}

func TestTRTLLMAnswersThatEnded(t *testing.T) {
	const answer = `{"id":"x","choices":[{"index":0,"message":{"content":"no"},"finish_reason":"stop","disaggregated_params":{"a":1}}],"prompt_token_ids":[1],"usage":{}}`
	if a, err := readTRTLLM([]byte(answer)); err != nil || !a.Over {
		t.Errorf("%+v %v", a, err)
	}
	whole, err := trtllmWhole([]byte(answer))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "whole", whole, `{"id":"x","choices":[{"index":0,"message":{"content":"no"},"finish_reason":"stop"}],"usage":{}}`)
	if _, err := trtllmWhole([]byte(`{"choices":[3]}`)); err == nil {
		t.Error("read")
	}
}
