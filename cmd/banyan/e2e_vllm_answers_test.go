//go:build e2e && e2e_vllm && linux

package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

// exchange is a request that must be answered alike through a peer and directly.
type exchange struct {
	name, method, path string
	body               any
}

func (w *vllmWorld) exchanges() []exchange {
	text, story := w.text(12), w.text(40)
	complete := object{"model": "tiny", "prompt": text, "max_tokens": 8, "temperature": 0}
	chat := w.chat(say("system", "Be brief."), say("user", text))
	messages := object{"model": "tiny", "max_tokens": 8, "temperature": 0, "system": "Be brief.", "messages": []object{say("user", text)}}
	responses := object{"model": "tiny", "max_output_tokens": 8, "temperature": 0, "instructions": "Be brief.", "input": text}
	stream := func(body object) object { return w.with(body, "stream", true) }
	usage := func(body object) object {
		return w.with(body, "stream", true, "stream_options", object{"include_usage": true, "continuous_usage_stats": false})
	}
	var out []exchange
	add := func(name, method, path string, body any) { out = append(out, exchange{name, method, path, body}) }
	posts := func(path string, named ...any) {
		for i := 0; i < len(named); i += 2 {
			add(named[i].(string), http.MethodPost, path, named[i+1])
		}
	}
	posts(
		"/v1/completions",
		"plain", complete, "two and logprobs", w.with(complete, "n", 2, "logprobs", 2, "temperature", 0.7, "seed", 4), "echo", w.with(complete, "echo", true),
		"several prompts", w.with(complete, "prompt", []string{text, story}), "several id prompts", w.with(complete, "prompt", [][]int{w.ids(40), w.ids(50)}),
		"stream", stream(complete), "stream with usage", usage(complete), "token ids", w.with(complete, "return_token_ids", true),
		"prompt_logprobs", w.with(complete, "prompt_logprobs", 1), "no prompt", object{"model": "tiny"}, "an id beyond the vocabulary", w.with(complete, "prompt", []int{1, 99999999}),
		"max_tokens 5.0", w.with(complete, "max_tokens", json.RawMessage("5.0")), "max_tokens \"5\"", w.with(complete, "max_tokens", "5"),
		"n 1.0", w.with(complete, "n", json.RawMessage("1.0")), "stream 0", w.with(complete, "stream", 0), "stream \"true\"", w.with(complete, "stream", "true"),
		"max_tokens -1", w.with(complete, "max_tokens", -1), "max_tokens 5.5", w.with(complete, "max_tokens", 5.5), "null everywhere", w.with(complete, "n", nil, "stream", nil, "stop", nil, "logprobs", nil),
		"too long", w.with(complete, "prompt", w.ids(9000)), "unknown field", w.with(complete, "colour", "red"),
	)
	posts(
		"/v1/chat/completions",
		"plain", chat, "logprobs", w.with(chat, "logprobs", true, "top_logprobs", 2), "stream", stream(chat), "stream with usage", usage(chat),
		"tools", w.with(chat, "tools", []object{weatherTool}), "tools, stream", stream(w.with(chat, "tools", []object{weatherTool}, "tool_choice", "required", "max_tokens", 40)),
		"schema", w.with(chat, "response_format", object{"type": "json_object"}, "max_tokens", 20), "stop", w.with(chat, "stop", []string{"e"}),
		"no messages", object{"model": "tiny"}, "messages of another kind", w.with(chat, "messages", "hello"), "unknown role", w.with(chat, "messages", []object{say("wizard", "hello")}),
		"hot temperature", w.with(chat, "temperature", "hot"), "empty", "", "no JSON", `{"model": "tiny", "messages": [`, "a list", "[]", "max_completion_tokens", w.with(chat, "max_completion_tokens", 3),
		"a bad tool", w.with(chat, "tools", []int{1}), "too long", w.with(chat, "messages", []object{say("user", strings.Repeat("many words ", 9000))}),
	)
	posts("/v1/messages", "plain", messages, "stream", stream(messages), "no max_tokens", object{"model": "tiny", "messages": messages["messages"]}, "no JSON", "{", "no messages", object{"model": "tiny", "max_tokens": 3})
	posts("/v1/messages/count_tokens", "plain", messages)
	posts("/v1/responses", "plain", responses, "stream", stream(responses), "no input", object{"model": "tiny"}, "nobody has it", w.with(responses, "previous_response_id", "resp_0123456789abcdef"))
	posts("/tokenize", "prompt", object{"model": "tiny", "prompt": text}, "messages", object{"model": "tiny", "messages": chat["messages"]})
	posts("/detokenize", "plain", object{"model": "tiny", "tokens": w.ids(5)})
	posts("/v1/chat/completions/render", "plain", chat)
	posts("/inference/v1/generate", "plain", object{"model": "tiny", "token_ids": w.ids(50), "sampling_params": object{"max_tokens": 3, "temperature": 0}})
	posts("/v1/chat/completions/batch", "plain", w.with(chat, "messages", []any{chat["messages"], chat["messages"]}))
	for _, path := range []string{"/v1/embeddings", "/v1/nothing"} {
		posts(path, "not there", object{"model": "tiny", "input": text})
	}
	for _, path := range []string{"/v1/models", "/v1/nothing", "/v1/chat/completions", "/v1/messages", "/health", "/ping", "/v1/responses/resp_0123456789abcdef"} {
		add("get", http.MethodGet, path, nil)
	}
	return out
}

// answers holds that a peer answers as the server does, but for the differences
// that deploy/README.md lists:
//   - ids and times differ in every answer;
//   - of headers, Date, Server, Content-Length and Transfer-Encoding are of each
//     hop, Vary is missing where the peer answers itself, X-Request-Id and
//     X-Banyan-* are the peer's own;
//   - what both refuse, the peer may refuse in its own words, in OpenAI's shape;
//   - in a stream that did not ask for usage, no event has system_fingerprint: the
//     peer asks for usage, vLLM puts the fingerprint into that event, and the peer
//     takes it out again;
//   - of /v1/models only the ids are the engine's;
//   - /health and /ping tell of the peer.
//
// Each prompt is asked three times: first to have it cached, then directly, then
// through a peer that knows only this server.
func (w *vllmWorld) answers(t *testing.T) {
	for _, e := range w.engines {
		p := e.alone
		for _, x := range w.exchanges() {
			t.Run(fmt.Sprintf("%s/%s %s: %s", e.name, x.method, x.path, x.name), func(t *testing.T) {
				ask(t, x.method, e.url()+x.path, x.body)
				own, got := ask(t, x.method, e.url()+x.path, x.body), ask(t, x.method, p.url()+x.path, x.body)
				if x.path == "/health" || x.path == "/ping" {
					own.raw, own.header = got.raw, got.header
				}
				if diff := differences(own, got); len(diff) > 0 {
					t.Errorf("through the peer is not as asked directly:\n%s\ndirectly: %.600s\nthrough:  %.600s", strings.Join(diff, "\n"), own.raw, got.raw)
				}
			})
		}
	}
}

// ownFields differ in every answer.
var ownFields = []string{"id", "created", "created_at", "completed_at", "request_id", "item_id", "msg_id"}

// ownHeaders are of each hop.
var ownHeaders = []string{"Date", "Server", "Content-Length", "Transfer-Encoding", "Vary"}

func differences(a, b reply) (out []string) {
	if a.status != b.status {
		return []string{fmt.Sprintf("status %d, %d", a.status, b.status)}
	}
	if complaint, _ := b.doc["error"].(object); a.status >= 400 && complaint["message"] != nil {
		return nil
	}
	for _, name := range headerNames(a.header, b.header) {
		if a.header.Get(name) != b.header.Get(name) {
			out = append(out, fmt.Sprintf("header %s %q, %q", name, a.header.Get(name), b.header.Get(name)))
		}
	}
	return append(out, lines(form(a), form(b))...)
}

func headerNames(hs ...http.Header) (out []string) {
	for _, h := range hs {
		for name := range h {
			if !slices.Contains(ownHeaders, name) && !slices.Contains(out, name) && !strings.HasPrefix(name, "X-Banyan-") && name != "X-Request-Id" {
				out = append(out, name)
			}
		}
	}
	sort.Strings(out)
	return out
}

// lines tells which lines differ.
func lines(a, b []string) (out []string) {
	for i := range max(len(a), len(b)) {
		x, y := "nothing", "nothing"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			out = append(out, fmt.Sprintf("%.600s\n  through the peer %.600s", x, y))
		}
	}
	return out
}

// form is an answer in lines that two answers to one question share.
func form(r reply) []string {
	if strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		return streamForm(string(r.raw))
	}
	var doc any
	if json.Unmarshal(r.raw, &doc) != nil {
		return []string{"body " + string(r.raw)}
	}
	if models, ok := r.doc["data"].([]any); ok && r.doc["object"] == "list" {
		return []string{fmt.Sprint(slices.Collect(ids(models)))}
	}
	var out []string
	flatten("", doc, &out)
	return out
}

func ids(models []any) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, m := range models {
			if m, ok := m.(object); !ok || !yield(m["id"]) {
				return
			}
		}
	}
}

// flatten writes a line a leaf.
func flatten(at string, v any, out *[]string) {
	switch v := v.(type) {
	case object:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			if slices.Contains(ownFields, k) {
				*out = append(*out, at+"."+k)
				continue
			}
			flatten(at+"."+k, v[k], out)
		}
	case []any:
		for i, e := range v {
			flatten(fmt.Sprintf("%s[%d]", at, i), e, out)
		}
		*out = append(*out, fmt.Sprintf("%s: %d", at, len(v)))
	default:
		*out = append(*out, fmt.Sprintf("%s = %v", at, v))
	}
}

// callsAt are places in the list of calls of an event.
var callsAt = regexp.MustCompile(`\.tool_calls\[\d+\]`)

// streamForm is the shape of the events, each run of equals once, and all the
// text: how many tokens come in one event is a matter of time. So is how much of
// a chat's calls, and whether the reason of its end comes with them: from the
// first call on all that the events hold counts as one event.
func streamForm(raw string) (out []string) {
	var text strings.Builder
	var calls []string
	for part := range strings.SplitSeq(strings.TrimSuffix(raw, "\n\n"), "\n\n") {
		shape := ""
		for line := range strings.Lines(part) {
			field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			var doc any
			if field != "data" || json.Unmarshal([]byte(value), &doc) != nil {
				shape += field + ": " + value + "; "
				continue
			}
			var leaves []string
			flatten("", doc, &leaves)
			inCalls := slices.Contains(leaves, ".choices: 1") && (len(calls) > 0 || slices.ContainsFunc(leaves, callsAt.MatchString))
			for _, leaf := range leaves {
				name, value, isText := strings.Cut(leaf, " = ")
				if strings.HasSuffix(name, ".system_fingerprint") {
					continue
				}
				if isText && (strings.HasSuffix(name, ".content") || strings.HasSuffix(name, ".text") || strings.HasSuffix(name, "delta") || strings.HasSuffix(name, ".arguments")) {
					if value != "<nil>" { // as content is beside a tool call
						text.WriteString(value)
					}
					leaf = name
				}
				if strings.HasSuffix(name, ".sequence_number") {
					leaf = name
				}
				if !inCalls {
					shape += leaf + ", "
				} else if leaf = callsAt.ReplaceAllString(leaf, ".tool_calls[]"); value != "<nil>" && !strings.Contains(leaf, ".tool_calls: ") && !slices.Contains(calls, leaf) {
					calls = append(calls, leaf)
				}
			}
		}
		if shape != "" && (len(out) == 0 || out[len(out)-1] != shape) {
			out = append(out, shape)
		}
	}
	sort.Strings(calls)
	return append(out, "calls: "+strings.Join(calls, ", "), "all text: "+text.String())
}
