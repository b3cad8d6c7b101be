package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/openai"
)

// messagesStream is what vLLM 0.32 writes for a streamed Messages request: the
// first event tells the whole prompt, only the last one what was cached.
var messagesStream = []string{
	"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":9,\"output_tokens\":0}}}\n\n",
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
	"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
	"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":5,\"output_tokens\":2,\"cache_read_input_tokens\":4}}\n\n",
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
}

const messagesBody = `{"model":"m","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}],"system":"s"}`

// TestMessagesPassAndAreUnderstood: nothing is injected into the body, nothing
// is taken out of the stream, and tokens and usage are read from it.
func TestMessagesPassAndAreUnderstood(t *testing.T) {
	var got string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Path + " " + readAll(r)
		writeChunks(w, messagesStream...)
	})
	a := g.do(http.MethodPost, "/v1/messages", messagesBody, nil)
	r := g.last()
	if a.body != strings.Join(messagesStream, "") || got != "/v1/messages "+messagesBody {
		t.Errorf("%q for %s", a.body, got)
	}
	want := openai.Usage{Known: true, Prompt: 9, Completion: 2, Cached: 4, CachedKnown: true}
	if r.Usage != want || r.Finish != "end_turn" || r.TTFT == 0 || g.firsts != 1 {
		t.Errorf("%+v, %d first tokens", r, g.firsts)
	}
}

// TestACutStreamSaysSoInItsOwnWords: clients read errors of their API only.
func TestACutStreamSaysSoInItsOwnWords(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/messages":         "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",",
		"/v1/responses":        "event: error\ndata: {\"type\":\"error\",\"code\":\"replica_failed\",",
		"/v1/chat/completions": "data: {\"error\":{\"message\":",
	} {
		g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, messagesStream[0])
			panic(http.ErrAbortHandler)
		})
		a := g.do(http.MethodPost, path, messagesBody, nil)
		if rest, ok := strings.CutPrefix(a.body, messagesStream[0]); !ok || !strings.HasPrefix(rest, want) || a.err == nil {
			t.Errorf("%s: %q, %v", path, a.body, a.err)
		}
	}
}

// TestTheErrorOfAResponseIsNumbered: its number is the one after the last event's
// (OpenAI's ResponseErrorEvent), 0 if it is the first.
func TestTheErrorOfAResponseIsNumbered(t *testing.T) {
	for _, c := range []struct {
		events []string
		want   string
	}{
		{[]string{"event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\"}}\n\n", "event: x\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":41,\"delta\":\"a\"}\n\n"}, `"sequence_number":42}`},
		{[]string{": ping\n\n"}, `"sequence_number":0}`},
	} {
		g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			writeChunks(w, c.events...)
			panic(http.ErrAbortHandler)
		})
		a := g.do(http.MethodPost, "/v1/responses", `{"model":"m","stream":true,"input":"hi"}`, nil)
		rest := strings.TrimPrefix(a.body, strings.Join(c.events, ""))
		var event map[string]any
		if err := json.Unmarshal([]byte(strings.TrimPrefix(rest, "event: error\ndata: ")), &event); err != nil || event["type"] != "error" || event["code"] != "replica_failed" || !strings.Contains(rest, c.want) {
			t.Errorf("%q, %v, want %s", rest, err, c.want)
		}
	}
}

// TestEveryAPIReachesItsReplica by the path it came by, with the fields of
// routers stripped and everything else as it was.
func TestEveryAPIReachesItsReplica(t *testing.T) {
	var got string
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Path + " " + readAll(r)
		ok(w, r)
	})
	for _, path := range []string{
		"/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/chat/completions/batch", "/inference/v1/generate", "/generate", "/rerank", "/v1/rerank",
		"/v2/rerank", "/score", "/v1/score", "/classify", "/pooling", "/v1/embeddings", "/tokenize", "/detokenize", "/v1/unheard/of",
	} {
		for _, body := range []string{`{"what":[1.50,"\u00e9"],"max_tokens":"x"}`, `{"n":null , "stream":{}}`} {
			if a := g.do(http.MethodPost, path, body, nil); a.status != 200 || got != path+" "+body {
				t.Errorf("%s %s: %d, the replica read %s", path, body, a.status, got)
			}
		}
		g.do(http.MethodPost, path, `{"a":1,"kv_transfer_params":{"remote_host":"10.0.0.1"},"vllm_xargs":{"kv_cache_report_mode":"full"}}`, nil)
		if got != path+` {"a":1,"vllm_xargs":{}}` {
			t.Errorf("%s: the replica read %s", path, got)
		}
	}
}

// TestEveryEndpointThatTakesASaltGetsIt: a hash that engines take.
func TestEveryEndpointThatTakesASaltGetsIt(t *testing.T) {
	var got string
	g := newRig(t, func(c *Config) {
		c.TenantHeader = "X-Tenant"
		c.Salt = func(tenant, given string) string { return "hash-of-" + tenant + "-" + given }
	}, func(w http.ResponseWriter, r *http.Request) {
		got = readAll(r)
		ok(w, r)
	})
	tenant := http.Header{"X-Tenant": {"red"}}
	for _, path := range []string{
		"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/chat/completions/batch", "/inference/v1/generate", "/rerank", "/score", "/classify", "/pooling", "/v1/embeddings",
	} {
		if g.do(http.MethodPost, path, `{"cache_salt":"own"}`, tenant); got != `{"cache_salt":"hash-of-red-own"}` {
			t.Errorf("%s: %s", path, got)
		}
		if g.do(http.MethodPost, path, `{}`, tenant); got != `{"cache_salt":"hash-of-red-"}` {
			t.Errorf("%s: %s", path, got)
		}
		if call := g.calls[len(g.calls)-1]; call.Body.CacheSalt != "hash-of-red-" {
			t.Errorf("%s: keyed with %q", path, call.Body.CacheSalt)
		}
	}
	if g.do(http.MethodPost, "/generate", `{"text":"x","extra_key":"own"}`, tenant); got != `{"text":"x","extra_key":"hash-of-red-\"own\""}` && !strings.Contains(got, `"extra_key":"hash-of-red-`) {
		t.Errorf("generate: %s", got)
	}
	for _, path := range []string{"/tokenize", "/detokenize", "/v1/messages/count_tokens"} {
		if g.do(http.MethodPost, path, `{}`, tenant); got != `{}` {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestSessionsByHeaderAndBody: ours, vLLM's, then the body's.
func TestSessionsByHeaderAndBody(t *testing.T) {
	g := newRig(t, nil, ok)
	for _, c := range []struct {
		header http.Header
		body   string
		want   string
	}{
		{http.Header{"X-Banyan-Session": {"a"}, "X-Session-Id": {"b"}}, `{"session_id":"c"}`, "a"},
		{http.Header{"X-Session-Id": {"b"}}, `{"session_id":"c"}`, "b"},
		{nil, `{"session_id":"c","user":"d"}`, "c"},
		{nil, `{"user":"d"}`, "d"},
		{nil, `{}`, ""},
	} {
		g.do(http.MethodPost, "/v1/chat/completions", c.body, c.header)
		if got := g.calls[len(g.calls)-1].Session; got != c.want {
			t.Errorf("%v %s: %q", c.header, c.body, got)
		}
	}
}

// TestResponsesAreNamedForTheirReplica, each try anew, whatever the client says.
func TestResponsesAreNamedForTheirReplica(t *testing.T) {
	var got []string
	note := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			got = append(got, readAll(r))
			w.WriteHeader(status)
		}
	}
	g := newRig(t, func(c *Config) {
		c.ResponseID = func(call *Call, target *Target) string { return "resp_" + target.Replica }
	}, note(503), note(200))
	g.do(http.MethodPost, "/v1/responses", `{"input":"x","request_id":"resp_mine"}`, nil)
	if len(got) != 2 || got[0] != `{"input":"x","request_id":"resp_r0"}` || got[1] != `{"input":"x","request_id":"resp_r1"}` {
		t.Errorf("%q", got)
	}
	got = nil
	if g.chat(plainChat); got[0] != plainChat {
		t.Errorf("a chat was named: %q", got)
	}
	for path, want := range map[string]string{"/v1/responses/resp_1": "resp_1", "/v1/responses/resp_1/cancel": "resp_1", "/v1/other/resp_1": ""} {
		g.do(http.MethodPost, path, "", nil)
		if stored := g.calls[len(g.calls)-1].Stored; stored != want {
			t.Errorf("%s: %q", path, stored)
		}
	}
	g.do(http.MethodPost, "/v1/responses", `{"input":"x","previous_response_id":"resp_2"}`, nil)
	if stored := g.calls[len(g.calls)-1].Stored; stored != "resp_2" {
		t.Errorf("%q", stored)
	}
}

// TestBadInput: large and deep bodies of the new APIs are served or refused, in
// time that grows with their size.
func TestBadInput(t *testing.T) {
	g := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		ok(w, r)
	})
	big := strings.Repeat("a long message ", 700_000) // 10.5 MB
	many := strings.Repeat(`{"role":"user","content":"x"},`, 300_000)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"10 MB":  {`{"messages":[{"role":"user","content":"` + big + `"}],"system":"s"}`, 200},
		"many":   {`{"messages":[` + many[:len(many)-1] + `]}`, 200},
		"deep":   {`{"messages":` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + `}`, 400},
		"object": {`{"messages":` + strings.Repeat(`{"a":`, 500_000) + "1" + strings.Repeat("}", 500_000) + `}`, 400},
		"names":  {`{"metadata":{` + strings.Repeat(`"user_id":"x",`, 500_000) + `"user_id":"y"}}`, 200},
		"xargs":  {`{"vllm_xargs":{` + strings.Repeat(`"user_id":"x",`, 500_000) + `"user_id":"y"}}`, 200},
	} {
		for _, path := range []string{"/v1/messages", "/v1/responses"} {
			if a := g.do(http.MethodPost, path, c.body, nil); a.status != c.status {
				t.Errorf("%s %s: %d %.200s", path, name, a.status, a.body)
			}
		}
	}
}
