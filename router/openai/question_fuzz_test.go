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
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"\\ud83d"}]}]},{"role":"system","content":"x"}],"thinking":{"type":"disabled"},"tools":[{"name":"f","input_schema":{}}]}`,
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"a": "\"b\\n"}},{"type":"thinking","thinking":"h"}]}],"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}]}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[{"text":"s"}]},{"type":"function_call","call_id":"c","name":"n","arguments":"{}","status":"incomplete"},{"type":"function_call_output","call_id":"c","output":"o"}],"instructions":"i","truncation":"auto"}`,
		`{"prompt":"a","truncate_prompt_tokens":5}`,
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
			if asked := RenderBody(e, plain); !json.Valid(asked) && !pythonNumber(body) {
				t.Fatalf("render is asked %q", asked)
			}
			for _, engine := range []string{"vllm", "sglang", "trtllm"} {
				p, why := TokenizeBody(e, engine, plain)
				if why != "" {
					continue
				}
				if p.Cut != nil && p.Cut.Bare != nil {
					p.Forms = append(p.Forms, p.Cut.Bare)
				}
				for _, ask := range p.Forms {
					if !json.Valid(ask) && !pythonNumber(body) {
						t.Fatalf("%s is asked %q", engine, ask)
					}
				}
				if len(p.Forms) == 0 {
					t.Fatalf("%s is asked nothing, and nothing says why", engine)
				}
			}
		}
	})
}
