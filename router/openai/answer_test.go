package openai

import (
	"strings"
	"testing"
)

func TestWhatIsWrongWithAnAnswer(t *testing.T) {
	for _, c := range []struct {
		endpoint Endpoint
		first    string
		whole    bool
		want     Wrong
	}{
		{Chat, `{"id":"x","choices":[{"index":0}]}`, true, WrongNothing},
		{Chat, `{"id":"x","choi`, false, WrongNothing},
		{Chat, "\ufeff {\"choices\": [ 1 ]}", true, WrongNothing},
		{Chat, `{"choices":[]}`, true, WrongChoices},
		{Chat, `{"choices":[ ]}`, true, WrongChoices},
		{Chat, `{}`, true, WrongChoices},
		{Chat, `[]`, true, WrongChoices},
		{Completions, `{"choices":null}`, true, WrongChoices},
		{Chat, `{"choices":[{"a":}]}`, true, WrongContent},
		{Chat, "<html>busy</html>", true, WrongContent},
		{Chat, "", true, WrongEmpty},
		{Chat, " \r\n", true, WrongEmpty},
		{Chat, "\n", false, WrongNothing},
		{Chat, "data: {\"choices\":[]}\n\n", false, WrongNothing},
		{Chat, "da", false, WrongNothing},
		{Chat, "dark", false, WrongContent},
		{Chat, ": ping\n\ndata: ", false, WrongNothing},
		{Chat, "data: [DONE]\n\n", true, WrongNothing},
		{Chat, "data: evil\n\ndata: [DONE]\n\n", false, WrongEvent},
		{Chat, "data: \x00\xff\xfe", false, WrongNothing}, // its end has not come
		{Messages, "event: message_start\ndata: {}\n\n", false, WrongNothing},
		{Messages, `{"content":[]}`, true, WrongNothing},
		{Responses, `{"output":[],"status":"queued"}`, true, WrongNothing},
		{Responses, "OK", true, WrongContent},
		{Embeddings, "\x00\x01", true, WrongNothing}, // encoding_format: bytes
		{Other, "<html>", true, WrongNothing},
	} {
		if got := c.endpoint.Begins([]byte(c.first), c.whole); got != c.want {
			t.Errorf("%s %q whole %v: %q, want %q", c.endpoint.Path(), c.first, c.whole, got, c.want)
		}
	}
}

func FuzzBegins(f *testing.F) {
	f.Add("data: evil\n\n", true)
	f.Add(`{"choices":[{}]}`, true)
	f.Fuzz(func(t *testing.T, first string, whole bool) {
		wrong := Chat.Begins([]byte(first), whole)
		if whole && wrong == WrongNothing && strings.HasPrefix(first, "{") && !strings.Contains(first, "choices") && !strings.Contains(first, `\`) {
			t.Errorf("%q is taken for an answer", first)
		}
	})
}
