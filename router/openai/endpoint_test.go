package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEveryPathNamesItsEndpoint(t *testing.T) {
	seen := map[string]bool{}
	for e := Other + 1; e < endpoints; e++ {
		if EndpointOf(e.Path()) != e {
			t.Errorf("%d: %q", e, e.Path())
		}
		for _, p := range paths[e] {
			if seen[p] {
				t.Errorf("%q twice", p)
			}
			seen[p] = true
		}
	}
	if EndpointOf("/v1/files") != Other || EndpointOf("") != Other || Other.Path() != "" || endpoints.Path() != "" {
		t.Error("what is unknown is Other")
	}
}

func TestStoredResponse(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/responses/resp_1": "resp_1", "/v1/responses/resp_1/cancel": "resp_1", "/v1/responses/resp_1/input_items": "resp_1",
		"/v1/responses/": "", "/v1/responses": "", "/v1/responses/resp_1/other": "", "/v1/responses/a/cancel/b": "", "/v1/models/x": "",
	} {
		if got := StoredResponse(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestPromptsOfEveryAPI: what is cached for one prompt is found by the next one
// that begins like it.
func TestPromptsOfEveryAPI(t *testing.T) {
	text := func(e Endpoint, body string) string { return string(mustParse(t, e, body).AppendCanonical(nil)) }
	for _, c := range []struct {
		endpoint Endpoint
		short    string
		long     string
		other    string
	}{
		{
			Messages, `{"system":"be brief","tools":[{"name":"t"}],"messages":[{"role":"user","content":"hi"}]}`,
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}],"tools":[{"name":"t"}],"system":"be brief"}`,
			`{"system":"be long","tools":[{"name":"t"}],"messages":[{"role":"user","content":"hi"}]}`,
		},
		{
			Responses, `{"instructions":"be brief","input":"hi"}`,
			`{"input":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}],"instructions":"be brief"}`,
			`{"instructions":"be long","input":"hi"}`,
		},
		{
			ChatBatch, `{"messages":[[{"role":"user","content":"a"}],[{"role":"user","content":"b"}]]}`,
			`{"messages":[[{"role":"user","content":"a"},{"role":"assistant","content":"c"}]]}`,
			`{"messages":[[{"role":"user","content":"b"}],[{"role":"user","content":"a"}]]}`,
		},
		{Rerank, `{"query":"q","documents":["a"]}`, `{"documents":["a"],"query":"q"}`, `{"query":"q","documents":["b"]}`},
		{Score, `{"text_1":"q","text_2":["a"]}`, `{"text_1":"q","text_2":["a"]}`, `{"text_1":"r","text_2":["a"]}`},
		{Classify, `{"input":"ab"}`, `{"input":"abc"}`, `{"input":"b"}`},
		{SGLGenerate, `{"text":"ab"}`, `{"text":"abc"}`, `{"text":"b"}`},
	} {
		short, long, other := text(c.endpoint, c.short), text(c.endpoint, c.long), text(c.endpoint, c.other)
		if short == "" || !strings.HasPrefix(long, short) || strings.HasPrefix(other, short) {
			t.Errorf("%s: %q, longer %q, other %q", c.endpoint.Path(), short, long, other)
		}
	}
	if p := mustParse(t, Generate, `{"token_ids":[1,2],"sampling_params":{"max_tokens":"7","n":2}}`); len(p.Prompt.Tokens) != 2 || p.MaxTokens != 7 || p.N != 2 {
		t.Errorf("%+v", p)
	}
	if p := mustParse(t, SGLGenerate, `{"input_ids":[[1,2],[3]],"sampling_params":{"max_new_tokens":7}}`); len(p.Prompt.Tokens) != 2 || p.Prompt.Count != 2 || p.MaxTokens != 7 {
		t.Errorf("%+v", p)
	}
}

// TestSessionsInTheOrderOfTheirFields: of all fields that name a conversation
// the most deliberate one counts.
func TestSessionsInTheOrderOfTheirFields(t *testing.T) {
	fields := []struct{ field, name string }{
		{`"session_id":"a"`, "a"},
		{`"vllm_xargs":{"session_id":"b"}`, "b"},
		{`"conversation":{"id":"c"}`, "c"},
		{`"prompt_cache_key":"d"`, "d"},
		{`"metadata":{"user_id":"e"}`, "e"},
		{`"user":"f"`, "f"},
	}
	for i := range fields {
		var body []string
		for j := len(fields) - 1; j >= i; j-- {
			body = append(body, fields[j].field)
		}
		if r := mustParse(t, Messages, "{"+strings.Join(body, ",")+"}"); r.Session != fields[i].name {
			t.Errorf("%v: %q", body, r.Session)
		}
	}
	for body, want := range map[string]string{
		`{"conversation":"c","user":"f"}`: "c", `{"session_id":5,"user":"f"}`: "f", `{"session_id":"","user":"f"}`: "f",
		`{"metadata":{"user_id":"e"}}`: "", `{"conversation":{"id":7}}`: "", `{}`: "",
	} {
		if r := mustParse(t, Chat, body); r.Session != want {
			t.Errorf("%s: %q, want %q", body, r.Session, want)
		}
	}
}

func TestErrorsInTheShapeOfTheEndpoint(t *testing.T) {
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
		404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 502: "api_error", 503: "overloaded_error", 504: "timeout_error",
	} {
		var got struct {
			Type  string
			Error struct{ Type, Message string }
		}
		e := &Error{Status: status, Message: "no", Type: "x"}
		if err := json.Unmarshal(e.BodyFor(Messages), &got); err != nil || got.Type != "error" || got.Error.Type != want || got.Error.Message != "no" {
			t.Errorf("%d: %+v, %v", status, got, err)
		}
		if string(e.BodyFor(Chat)) != string(e.Body()) {
			t.Errorf("%d: the shape of OpenAI changed", status)
		}
	}
}

// TestStripFindsTheFieldsInEveryPlace that an engine reads them from.
func TestStripFindsTheFieldsInEveryPlace(t *testing.T) {
	for _, c := range []struct {
		body, want string
		n          int
	}{
		{`{"vllm_xargs":{"kv_cache_report_mode":"full","top":1}}`, `{"vllm_xargs":{"top":1}}`, 1},
		{`{"vllm_xargs":{"k\u0076_cache_report_mode":"full"}}`, `{"vllm_xargs":{}}`, 1},
		{`{"sampling_params":{"extra_args":{"kv_transfer_params":{"remote_host":"x"},"a":1}}}`, `{"sampling_params":{"extra_args":{"a":1}}}`, 1},
		{`{"sampling_params":[{"bootstrap_host":"x"},{"a":1}]}`, `{"sampling_params":[{},{"a":1}]}`, 1},
		{`{"requests":[{"kv_transfer_params":{}},5]}`, `{"requests":[{},5]}`, 1},
		{`{"nvext":{"kv.fetch@1.0":{}}}`, `{"nvext":{}}`, 1},
		{`{"sampling_params":{"a":1,"a":2}}`, `{"sampling_params":{"a":1,"a":2}}`, 0}, // the engine takes the last, and neither is ours
		{`{"sampling_params":{"a":1,"a":2,"rid":"x","r\u0069d":"y"}}`, `{"sampling_params":{"a":2}}`, 1},
		{`{"vllm_xargs":{"rid":"x"},"vllm_xargs":{"extra_args":{},"extra_args":{"rid":"y"}}}`, `{"vllm_xargs":{"extra_args":{}}}`, 1},
		{`{"extra_body":{"extra_body":{"extra_body":{"extra_body":{"extra_body":{}}}}}}`, `{"extra_body":{"extra_body":{"extra_body":{"extra_body":{}}}}}`, 1},
		{`{"tools":[{"parameters":{"properties":{"request_id":{},"rid":{}}}}]}`, `{"tools":[{"parameters":{"properties":{"request_id":{},"rid":{}}}}]}`, 0},
	} {
		r := mustParse(t, Chat, c.body)
		if n := r.StripInternal(); n != c.n || string(r.Bytes()) != c.want {
			t.Errorf("%s: %d, %s", c.body, n, r.Bytes())
		}
	}
	for body, want := range map[string]string{
		`[{"kv_transfer_params":{}},{"a":1}]`: `[{},{"a":1}]`, ` [1,2] `: ` [1,2] `, `[[{"rid":1}]]`: `[[{}]]`,
		`[{"a":1,"a":2}]`: `[{"a":1,"a":2}]`, `[{"rid":1,"rid":2,"a":1}]`: `[{"a":1}]`, `[1`: "", `[[[[[[]]]]]]`: "",
	} {
		if got, err := StripList([]byte(body)); (err != nil) != (want == "") || string(got) != want {
			t.Errorf("%s: %s, %v", body, got, err)
		}
	}
}

func TestUsageOfAStreamThatTellsItInTwoParts(t *testing.T) {
	start := Usage{Known: true, Prompt: 9, Cached: 4, CachedKnown: true}
	end := Usage{Known: true, Completion: 3}
	if got := start.Then(end); got != (Usage{Known: true, Prompt: 9, Completion: 3, Cached: 4, CachedKnown: true}) {
		t.Errorf("%+v", got)
	}
	if got := start.Then(Usage{}); got != start {
		t.Errorf("%+v", got)
	}
	if got := end.Then(Usage{Known: true, Prompt: 5, Completion: 4, CachedKnown: true}); got.Completion != 4 || got.Prompt != 5 || !got.CachedKnown {
		t.Errorf("%+v", got)
	}
}
