package standin

import (
	"strings"
	"testing"
)

func TestResponses(t *testing.T) {
	s := start(t, Config{})
	type response struct {
		Object string
		Output []struct{ Content []struct{ Text string } }
		Usage  struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	var text, list response
	post(t, s, "/v1/responses", obj{"instructions": "be brief", "input": "hello", "max_output_tokens": 4}, &text)
	post(t, s, "/v1/responses", obj{"input": []obj{
		{"role": "system", "content": "be brief"}, {"role": "user", "content": []obj{{"type": "input_text", "text": "hello"}}},
	}, "max_output_tokens": 4}, &list)
	var chat reply
	post(t, s, "/v1/chat/completions", obj{"messages": []obj{{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}}, "max_tokens": 4}, &chat)
	want := chat.Choices[0].Message.Content
	if text.Object != "response" || text.Output[0].Content[0].Text != want || list.Output[0].Content[0].Text != want || text.Usage.Output != 4 {
		t.Errorf("%+v\n%+v\nwant %q", text, list, want)
	}
	var stream string
	post(t, s, "/v1/responses", obj{"input": "hello", "max_output_tokens": 4, "stream": true}, &stream)
	for _, event := range []string{"event: response.created\n", "event: response.output_text.delta\n", "event: response.completed\n"} {
		if !strings.Contains(stream, event) {
			t.Errorf("no %q in %s", event, stream)
		}
	}
	if code := post(t, s, "/v1/responses", obj{"input": 3}, nil); code != 400 {
		t.Errorf("bad input answers %d", code)
	}
}
