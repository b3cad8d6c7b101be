package openai

import (
	"bytes"
	"strings"
	"testing"
)

// The right sides were compared with what vLLM 0.32.0, SGLang 0.5.23 and
// TensorRT-LLM read of a chat.
func TestTokenizeBody(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint        Endpoint
		engine          string
		body, want, why string
	}{
		"a prompt":             {Completions, "vllm", `{"model":"m","prompt":"a","echo":true}`, `{"model":"m","prompt":"a"}`, ""},
		"the first of a batch": {Completions, "vllm", `{"model":"m","prompt":[ "a\n","b"],"add_special_tokens":false}`, `{"model":"m","prompt":"a\n","add_special_tokens":false}`, ""},
		"SGLang's completions know no special tokens": {Completions, "sglang", `{"prompt":"a","add_special_tokens":false}`, `{"prompt":"a"}`, ""},
		"a suffix":        {Completions, "vllm", `{"prompt":"a","suffix":"b"}`, "", "suffix"},
		"cut prompts":     {Completions, "sglang", `{"prompt":"a","truncate_prompt_tokens":5}`, "", "truncate_prompt_tokens"},
		"null is nothing": {Completions, "vllm", `{"prompt":"a","suffix":null}`, `{"prompt":"a"}`, ""},
		"token ids":       {Completions, "vllm", `{"prompt":[1,2]}`, "", "no text"},
		"a chat": {
			Chat, "vllm", `{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[],"tool_choice":"auto","response_format":null,"add_generation_prompt":true}`,
			`{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[],"add_generation_prompt":true}`, "",
		},
		"effort and documents are arguments of the template": {
			Chat, "vllm", `{"messages":[],"reasoning_effort":"low","documents":[{"text":"d"}],"chat_template_kwargs":{"x":1,"reasoning_effort":"high"}}`,
			`{"messages":[],"chat_template_kwargs":{"x":1,"reasoning_effort":"low","documents":[{"text":"d"}],"enable_thinking":true}}`, "",
		},
		"no effort is no thinking":             {Chat, "vllm", `{"messages":[],"reasoning_effort":"none"}`, `{"messages":[],"chat_template_kwargs":{"reasoning_effort":"none","enable_thinking":false}}`, ""},
		"the client's own word wins":           {Chat, "vllm", `{"messages":[],"reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true}}`, `{"messages":[],"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"none"}}`, ""},
		"reasoning goes by its present name":   {Chat, "vllm", `{"messages":[{"role":"assistant","reasoning_content":"r"},{"role":"user","content":"a"}]}`, `{"messages":[{"role":"assistant","reasoning":"r"},{"role":"user","content":"a"}]}`, ""},
		"the present name wins":                {Chat, "vllm", `{"messages":[{"reasoning_content":"r","reasoning":"s"}]}`, `{"messages":[{"reasoning":"s"}]}`, ""},
		"text in parts":                        {Chat, "vllm", `{"messages":[{"content":[{"type":"text","text":"a"}]}]}`, `{"messages":[{"content":[{"type":"text","text":"a"}]}]}`, ""},
		"an image":                             {Chat, "vllm", `{"messages":[{"content":"a"},{"content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}]}`, "", "image_url"},
		"a part of no type":                    {Chat, "sglang", `{"messages":[{"content":[{"text":"a"}]}]}`, "", "without a type"},
		"a cut chat":                           {Chat, "trtllm", `{"messages":[],"truncate_prompt_tokens":5}`, "", "truncate_prompt_tokens"},
		"SGLang takes the chat":                {Chat, "sglang", `{"model":"m","messages":[],"reasoning_effort":"low","add_generation_prompt":false,"add_special_tokens":true,"x":1}`, `{"model":"m","messages":[],"reasoning_effort":"low","x":1}`, ""},
		"TensorRT-LLM takes messages alone":    {Chat, "trtllm", `{"model":"m","messages":[],"tool_choice":"auto"}`, `{"model":"m","messages":[]}`, ""},
		"TensorRT-LLM takes no tools":          {Chat, "trtllm", `{"messages":[],"tools":[{}]}`, "", "tools"},
		"TensorRT-LLM takes no special switch": {Completions, "trtllm", `{"prompt":"a","add_special_tokens":false}`, "", "add_special_tokens"},
		"no messages":                          {Chat, "vllm", `{"prompt":"a"}`, "", "no messages"},
		"another API":                          {Responses, "trtllm", `{"input":"a"}`, "", "no tokenizer endpoint"},
		"what becomes a vector":                {Embeddings, "vllm", `{"model":"m","input":["a","b"],"dimensions":8,"add_special_tokens":false}`, `{"model":"m","prompt":"a","add_special_tokens":false}`, ""},
		"what becomes a class":                 {Classify, "sglang", `{"model":"m","input":"a"}`, `{"model":"m","prompt":"a"}`, ""},
		"a chat that becomes one opens no answer": {
			Embeddings, "vllm", `{"messages":[{"role":"user","content":"a"}],"tools":[{}],"reasoning_effort":"low"}`,
			`{"add_generation_prompt":false,"messages":[{"role":"user","content":"a"}]}`, "",
		},
		"unless it is asked to":            {Classify, "vllm", `{"messages":[{"content":"a"}],"add_generation_prompt":true}`, `{"add_generation_prompt":true,"messages":[{"content":"a"}]}`, ""},
		"a batch of such chats":            {Embeddings, "vllm", `{"messages":[[{"content":"a"}]]}`, "", "batch"},
		"an image becomes a vector":        {Embeddings, "vllm", `{"messages":[{"content":[{"type":"image_url"}]}]}`, "", "image_url"},
		"what a pooling model makes of it": {Pooling, "vllm", `{"model":"m","input":"a"}`, `{"model":"m","prompt":"a"}`, ""},
		"a plugin's data":                  {Pooling, "vllm", `{"model":"m","data":{"a":1}}`, "", "no text"},
		"a chat as input":                  {Embeddings, "vllm", `{"input":[{"role":"user","content":"a"}]}`, "", "no text"},
		"SGLang makes no vectors of chats": {Embeddings, "sglang", `{"messages":[{"content":"a"}]}`, "", "no text"},
		"padded":                           {Embeddings, "vllm", `{"input":"a","padding":"max_length"}`, "", "padding"},
		"no object":                        {Chat, "vllm", `[]`, "", "no object"},
	} {
		t.Run(name, func(t *testing.T) {
			p, why := TokenizeBody(c.endpoint, c.engine, []byte(c.body))
			got := bytes.Join(p.Forms, nil)
			if string(got) != c.want || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("%s\n got %s (%s)\nwant %s (%s)", c.body, got, why, c.want, c.why)
			}
		})
	}
}

func TestRenderBody(t *testing.T) {
	for _, c := range []struct {
		endpoint   Endpoint
		body, want string
	}{
		{Chat, `{"messages":[{"content":"a"}],"tools":[{"type":"function"}]}`, `{"messages":[{"content":"a"}],"tools":[{"type":"function"}]}`},
		{Chat, `{"messages":[{"content":[{"type":"image_url"}]}]}`, `{"messages":[{"content":[{"type":"image_url"}]}],"mm_payload":"none"}`},
		{Messages, `{"messages":[]}`, `{"messages":[],"max_tokens":1,"mm_payload":"none"}`},
		{Completions, `{"prompt":"a"}`, `{"prompt":"a"}`},
	} {
		if got := RenderBody(c.endpoint, []byte(c.body)); string(got) != c.want {
			t.Errorf("%s is asked as %s, want %s", c.body, got, c.want)
		}
	}
}
