package openai

import (
	"encoding/json"
	"testing"
)

// FuzzTokenizeBody: whatever a client sent, what an engine is asked is JSON,
// and asks what the body says.
func FuzzTokenizeBody(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}],"reasoning_content":"r"}],"reasoning_effort":"low"}`,
		`{"prompt":["a",1]}`, `{"prompt":"a","suffix":null,"add_special_tokens":false}`, `{"messages":[1,{"content":[null,[]]}],"chat_template_kwargs":[]}`,
		`{"messages":[{"content":[{"type":"image_url"}]}],"documents":null}`, `{"messages":{}}`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, e := range []Endpoint{Completions, Chat, Messages, Responses} {
			r, err := Parse(e, body)
			if err != nil {
				return
			}
			plain := r.PromptBody()
			if asked := RenderBody(e, plain); !json.Valid(asked) {
				t.Fatalf("render is asked %q", asked)
			}
			for _, engine := range []string{"vllm", "sglang", "trtllm"} {
				ask, why := TokenizeBody(e, engine, plain)
				if (ask == nil) == (why == "") || why == "" && !json.Valid(ask) {
					t.Fatalf("%s is asked %q, or not, because %q", engine, ask, why)
				}
			}
		}
	})
}
