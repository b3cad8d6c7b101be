package openai

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// events feeds a stream in the given pieces and returns the data of all
// events and the raw bytes joined.
func events(s *Scanner, pieces ...string) (data []string, raw string) {
	emit := func(e Event) {
		if e.Data != nil {
			data = append(data, string(e.Data))
		}
		raw += string(e.Raw)
	}
	for _, p := range pieces {
		s.Feed([]byte(p), emit)
	}
	s.Flush(emit)
	return data, raw
}

func TestI4ScannerKeepsEveryByteHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"data: {\"a\":1}", "data:x", "data", ": ping", "event: y", "\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r", "data: ", "é",
		})).Draw(t, "stream"), "")
		whole, raw := events(&Scanner{}, stream)
		if raw != stream {
			t.Fatalf("raw %q of %q", raw, stream)
		}
		var s Scanner
		var cutData []string
		cutRaw := ""
		emit := func(e Event) {
			if e.Data != nil {
				cutData = append(cutData, string(e.Data))
			}
			cutRaw += string(e.Raw)
		}
		for rest := stream; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			s.Feed([]byte(rest[:n]), emit)
			rest = rest[n:]
		}
		s.Flush(emit)
		if cutRaw != stream || strings.Join(cutData, "|") != strings.Join(whole, "|") {
			t.Fatalf("cut %q raw %q; whole %q of %q", cutData, cutRaw, whole, stream)
		}
	})
}

func TestScannerReadsEvents(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []string
	}{
		{"plain", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"cr", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"comment", ": ping\n\ndata: a\n\n", []string{"a"}},
		{"comment inside", "data: a\n: ping\n\n", []string{"a"}},
		{"named", "event: x\ndata: a\nid: 1\n\n", []string{"a"}},
		{"two lines", "data: a\ndata: b\ndata:c\n\n", []string{"a\nb\nc"}},
		{"no end", "data: a\n\ndata: b\n", []string{"a"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"two spaces", "data:  a\n\n", []string{" a"}},
	} {
		if got, _ := events(&Scanner{}, c.stream); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestScannerLetsLongEventsPassInBoundedMemory(t *testing.T) {
	s := Scanner{Limit: 1024}
	raw := 0
	emit := func(e Event) {
		raw += len(e.Raw)
		if e.Data != nil {
			t.Fatal("a long event must have no data")
		}
	}
	line := bytes.Repeat([]byte("x"), 500)
	for range 1000 {
		s.Feed(line, emit)
		if len(s.held) > 1024 {
			t.Fatalf("holds %d", len(s.held))
		}
	}
	if s.Oversize != 1 || s.Idle() {
		t.Fatalf("oversize %d", s.Oversize)
	}
	s.Feed([]byte("\n\n"), emit)
	var after []string
	s.Feed([]byte("data: ok\n\n"), func(e Event) { after = append(after, string(e.Data)) })
	if len(after) != 1 || after[0] != "ok" || raw != 500*1000+2 {
		t.Fatalf("after %q, raw %d", after, raw)
	}
}

func TestParseChunk(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       Chunk
	}{
		{"done", `[DONE]`, Chunk{Done: true}},
		{"role", `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, Chunk{}},
		{"text", `{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`, Chunk{Token: true}},
		{"role and text", `{"choices":[{"delta":{"role":"assistant","content":"a"}}]}`, Chunk{Token: true}},
		{"empty text", `{"choices":[{"delta":{"content":""}}]}`, Chunk{Token: true}},
		{"reasoning", `{"choices":[{"delta":{"reasoning_content":"a","content":null}}]}`, Chunk{Token: true}},
		{"tool", `{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`, Chunk{Token: true}},
		{"finish", `{"choices":[{"delta":{},"finish_reason":"length"}]}`, Chunk{Token: true, Finish: "length"}},
		{"completion", `{"choices":[{"text":""}]}`, Chunk{Token: true}},
		{"null usage", `{"choices":[{"text":"a"}],"usage":null}`, Chunk{Token: true, HasUsage: true}},
		{"error", `{"error":{"message":"x"}}`, Chunk{Failed: true}},
		{"no choices", `{"sglext":{}}`, Chunk{}},
		{"not json", `hello`, Chunk{}},
		{"cut", `{"choices":[{"text":"a"`, Chunk{}},
		{
			"usage", `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`,
			Chunk{OnlyUsage: true, HasUsage: true, Usage: Usage{Known: true, Prompt: 5, Completion: 2, Cached: 4, CachedKnown: true}},
		},
		{
			"usage without details", `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":null}}`,
			Chunk{OnlyUsage: true, HasUsage: true, Usage: Usage{Known: true, Prompt: 5, Completion: 2}},
		},
		{"response delta", `{"type":"response.output_text.delta","delta":"a"}`, Chunk{Token: true}},
		{
			"response end", `{"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":1,"input_tokens_details":{"cached_tokens":0}}}}`,
			Chunk{Finish: "stop", Usage: Usage{Known: true, Prompt: 3, Completion: 1, CachedKnown: true}},
		},
		{"messages delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`, Chunk{Token: true}},
		{"messages stop", `{"type":"message_stop"}`, Chunk{Done: true}},
		{"messages error", `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, Chunk{Failed: true}},
		{
			"messages start", `{"type":"message_start","message":{"id":"m","usage":{"input_tokens":9,"output_tokens":0}}}`,
			Chunk{Usage: Usage{Known: true, Prompt: 9}},
		},
		{
			"messages end", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":3,"output_tokens":1,"cache_read_input_tokens":4,"cache_creation_input_tokens":2}}`,
			Chunk{HasUsage: true, Finish: "end_turn", Usage: Usage{Known: true, Prompt: 9, Completion: 1, Cached: 4, CachedKnown: true}},
		},
		{"ids", `{"choices":[{"index":0,"token_ids":[7]}]}`, Chunk{Token: true}},
		{"no ids", `{"choices":[{"index":0,"token_ids":[]}]}`, Chunk{}},
		{
			"sglang", `{"text":"a","meta_info":{"prompt_tokens":5,"completion_tokens":1,"cached_tokens":4}}`,
			Chunk{Token: true, Usage: Usage{Known: true, Prompt: 5, Completion: 1, Cached: 4, CachedKnown: true}},
		},
		{
			"absurd counts", `{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":1e9,"prompt_tokens_details":{"cached_tokens":99999999999}}}`,
			Chunk{OnlyUsage: true, HasUsage: true, Usage: Usage{Known: true}},
		},
	} {
		got := ParseChunk([]byte(c.data))
		got.noChoices = false
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestAppendWithoutUsage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"data: {\"a\":1,\"usage\":null}\n\n", "data: {\"a\":1}\n\n"},
		{"data: {\"usage\":null,\"a\":1}\n\n", "data: {\"a\":1}\n\n"},
		{"data: {\"a\":1 , \"usage\": {\"x\":[1]} ,\"b\":2}\n\n", "data: {\"a\":1  ,\"b\":2}\n\n"},
		{"data: {\"usage\":null}\r\n\r\n", "data: {}\r\n\r\n"},
		{"id: 1\ndata: {\"a\":\"usage\"}\n\n", "id: 1\ndata: {\"a\":\"usage\"}\n\n"},
		{"data: {\"c\":{\"usage\":1}}\n\n", "data: {\"c\":{\"usage\":1}}\n\n"},
	} {
		var got string
		new(Scanner).Feed([]byte(c.in), func(e Event) { got = string(AppendWithoutUsage(nil, e)) })
		if got != c.want {
			t.Errorf("%q: %q", c.in, got)
		}
	}
}
