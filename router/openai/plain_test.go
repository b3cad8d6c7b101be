package openai

import (
	"bytes"
	"strings"
	"testing"
)

// chatOf asks for a chat of these messages.
func chatOf(messages, more string) string {
	return `{"model":"m","messages":` + messages + more + `}`
}

// The right sides are what vLLM 0.32.0 makes of the bodies (cmd/banyan has the
// test that compares them with its code).
func TestMessagesBecomeChats(t *testing.T) {
	const user = `{"role":"user","content":"a"}`
	for name, c := range map[string]struct {
		body string
		want []string
		why  string
	}{
		"a text":             {`{"model":"m","messages":[` + user + `]}`, []string{chatOf(`[`+user+`]`, ``)}, ""},
		"the system's texts": {`{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: 1"},{"type":"text","text":"s\n"},{"type":"text","text":"t","cache_control":{}},{"type":"text","text":""}],"messages":[` + user + `]}`, []string{chatOf(`[{"role":"system","content":"s\nt"},`+user+`]`, ``)}, ""},
		"blocks": {
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"h"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"c"},{"type":"tool_use","id":"i","name":"n","input":{"x": "\"\n"}},{"type":"tool_use","id":"j","name":"n"}]},{"role":"user","content":[{"type":"text","text":"d"},{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"e"},{"type":"text","text":"f"}]},{"type":"tool_result","tool_use_id":"j"}]}]}`,
			[]string{chatOf(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","reasoning":"h","content":"c","tool_calls":[{"id":"i","type":"function","function":{"name":"n","arguments":"{\"x\": \"\\\"\\n\"}"}},{"id":"j","type":"function","function":{"name":"n","arguments":"{}"}}]},{"role":"tool","tool_call_id":"i","content":"e\nf"},{"role":"tool","tool_call_id":"j","content":""},{"role":"user","content":"d"}]`, ``)},
			"",
		},
		"results alone": {
			`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"e"}]}]}`,
			[]string{chatOf(`[{"role":"tool","tool_call_id":"i","content":"e"}]`, ``)},
			"",
		},
		"tools": {
			`{"model":"m","messages":[` + user + `],"tools":[{"name":"n","description":null,"input_schema":{"properties":{}},"cache_control":{}},{"name":"o","description":"d","input_schema":{"type":"object"},"strict":true}],"tool_choice":{"type":"auto"}}`,
			[]string{chatOf(`[`+user+`]`, `,"tools":[{"type":"function","function":{"name":"n","parameters":{"properties":{},"type":"object"}}},{"type":"function","function":{"name":"o","description":"d","parameters":{"type":"object"},"strict":true}}]`)},
			"",
		},
		"system messages in the middle": {
			`{"model":"m","system":"s","messages":[` + user + `,{"role":"system","content":"x-anthropic-billing-header"},{"role":"system","content":[{"type":"text","text":"t"},{"type":"text","text":"u"}]}]}`,
			[]string{
				chatOf(`[{"role":"system","content":"s"},`+user+`,{"role":"system","content":"tu"}]`, ``),
				chatOf(`[{"role":"system","content":"stu"},`+user+`]`, ``),
			},
			"",
		},
		"no thinking": {
			`{"model":"m","messages":[` + user + `],"thinking":{"type":"disabled"},"output_config":{"effort":"high"}}`,
			[]string{
				chatOf(`[`+user+`]`, `,"chat_template_kwargs":{"reasoning_effort":"none","enable_thinking":false}`),
				chatOf(`[`+user+`]`, `,"chat_template_kwargs":{"reasoning_effort":"low","enable_thinking":true}`),
			},
			"",
		},
		"an effort":              {`{"model":"m","messages":[` + user + `],"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`, []string{chatOf(`[`+user+`]`, `,"chat_template_kwargs":{"reasoning_effort":"high","enable_thinking":true}`)}, ""},
		"an image":               {`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`, nil, "image"},
		"an image in a result":   {`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"image"}]}]}]}`, nil, "image"},
		"an assistant's result":  {`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"i","content":"x"}]}]}`, nil, "not the user's"},
		"a tool of the server's": {`{"model":"m","messages":[` + user + `],"tools":[{"type":"web_search_20250305","name":"w"}]}`, nil, "input_schema"},
		"tools that change":      {`{"model":"m","messages":[{"role":"system","content":[{"type":"tool_removal"}]}]}`, nil, "changes its tools"},
		"a call without an id":   {`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","name":"n","input":{}}]}]}`, nil, "no id"},
		"no role":                {`{"model":"m","messages":[{"content":"a"}]}`, nil, "role"},
		"no messages":            {`{"model":"m"}`, nil, "no messages"},
		"twice":                  {`{"model":"m","messages":[{"role":"user","content":"a","content":"b"}]}`, []string{chatOf(`[{"role":"user","content":"b"}]`, ``)}, ""},
	} {
		t.Run(name, func(t *testing.T) { asked(t, Messages, c.body, c.want, c.why) })
	}
}

func asked(t *testing.T, e Endpoint, body string, want []string, why string) Plain {
	t.Helper()
	p, said := TokenizeBody(e, "vllm", []byte(body))
	if got := string(bytes.Join(p.Forms, []byte{'\n'})); got != strings.Join(want, "\n") || (said == "") != (why == "") || !strings.Contains(said, why) {
		t.Errorf("%s\n got %s (%s)\nwant %s (%s)", body, got, said, strings.Join(want, "\n"), why)
	}
	if p.Converted != (why == "") {
		t.Error("nothing says that it was rewritten")
	}
	return p
}

func TestResponsesBecomeChats(t *testing.T) {
	one := func(messages, more string) []string {
		tools, kwargs, _ := strings.Cut(more, "|")
		return []string{chatOf(messages, tools+`,"add_special_tokens":true`+kwargs)}
	}
	for name, c := range map[string]struct {
		body string
		want []string
		why  string
	}{
		"a text":       {`{"model":"m","input":"a","store":true}`, one(`[{"role":"user","content":"a"}]`, ``), ""},
		"instructions": {`{"model":"m","input":"a","instructions":"s","previous_response_id":null}`, one(`[{"role":"system","content":"s"},{"role":"user","content":"a"}]`, ``), ""},
		"items of one answer": {
			`{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[{"text":"s"}],"content":[{"text":"r"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"},{"type":"output_text","text":"x"}]},{"type":"function_call","call_id":"c","name":"n","arguments":"{}"},{"type":"function_call","call_id":"d","name":"n","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"},{"role":"assistant","content":"e"},{"role":"assistant","content":"f"}]}`,
			one(`[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","reasoning":"r","content":"b","tool_calls":[{"id":"c","type":"function","function":{"name":"n","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"n","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"o"},{"role":"assistant","content":"e"},{"role":"assistant","content":"f"}]`, ``), "",
		},
		"tools and an effort": {
			`{"model":"m","input":"a","tools":[{"type":"function","name":"n","parameters":null,"strict":false}],"reasoning":{"effort":"low","summary":"auto"}}`,
			one(`[{"role":"user","content":"a"}]`, `,"tools":[{"type":"function","function":{"name":"n","strict":false}}]|,"chat_template_kwargs":{"reasoning_effort":"low","enable_thinking":true}`), "",
		},
		"an answer to be continued": {
			`{"model":"m","input":[{"role":"user","content":"a"},{"type":"message","role":"assistant","status":"incomplete","content":"b"}]}`,
			[]string{chatOf(`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`, `,"add_generation_prompt":false,"continue_final_message":true,"add_special_tokens":true`)},
			"",
		},
		"one before":               {`{"model":"m","input":"a","previous_response_id":"r"}`, nil, "previous_response_id"},
		"a tool of the server's":   {`{"model":"m","input":"a","tools":[{"type":"web_search"}]}`, nil, "web_search"},
		"a custom call":            {`{"model":"m","input":[{"type":"custom_tool_call","call_id":"c","name":"n","input":"x"}]}`, nil, "custom_tool_call"},
		"a call in a namespace":    {`{"model":"m","input":[{"type":"function_call","call_id":"c","name":"n","arguments":"{}","namespace":"s"}]}`, nil, "another kind"},
		"an image":                 {`{"model":"m","input":[{"role":"user","content":[{"type":"input_image"}]}]}`, nil, "input_image"},
		"thoughts that are hidden": {`{"model":"m","input":[{"type":"reasoning","summary":[],"encrypted_content":"x"}]}`, nil, "encrypted"},
	} {
		t.Run(name, func(t *testing.T) { asked(t, Responses, c.body, c.want, c.why) })
	}
	if p := asked(t, Responses, `{"model":"m","input":"a","truncation":"auto"}`, one(`[{"role":"user","content":"a"}]`, ``), ""); p.Cut == nil || p.Cut.Keep != -1 {
		t.Errorf("cut %+v", p.Cut)
	}
}

// TestCallsHaveATwin: see DECISIONS.md of package token.
func TestCallsHaveATwin(t *testing.T) {
	for body, want := range map[string]string{
		`{"input":[{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}]}`: `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"n","arguments":"{}","banyan":0}}]}],"add_special_tokens":true}`,
		`{"input":"a"}`: "",
	} {
		if p, why := TokenizeBody(Responses, "vllm", []byte(body)); why != "" || string(p.Twin) != want {
			t.Errorf("%s has the twin %s (%s)", body, p.Twin, why)
		}
	}
}

// TestShapesDiffer: a conversion that was proven for plain prompts is not
// believed for those that make use of more of it.
func TestShapesDiffer(t *testing.T) {
	seen := map[Shape]string{}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"a"}]}`,
		`{"messages":[{"role":"user","content":"a"}],"system":"s"}`,
		`{"messages":[{"role":"user","content":"a"}],"tools":[]}`,
		`{"messages":[{"role":"user","content":"a"},{"role":"system","content":"a"}]}`,
		`{"messages":[{"role":"user","content":"a"}],"thinking":{"type":"disabled"}}`,
		`{"messages":[{"role":"user","content":"a"}],"output_config":{"effort":"low"}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`,
	} {
		p, why := TokenizeBody(Messages, "vllm", []byte(body))
		if other, ok := seen[p.Shape]; ok || why != "" {
			t.Errorf("%s is of the shape of %s (%s)", body, other, why)
		}
		seen[p.Shape] = body
	}
}

func TestCuts(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint Endpoint
		body     string
		want     Cut
		bare     string
	}{
		"from the left, as the tokenizer does": {Completions, `{"prompt":"a","truncate_prompt_tokens":"7"}`, Cut{Keep: 7}, `{"prompt":"a","add_special_tokens":false}`},
		"no special tokens":                    {Completions, `{"prompt":"a","truncate_prompt_tokens":7,"add_special_tokens":false}`, Cut{Keep: 7}, ""},
		"a side":                               {Completions, `{"prompt":"a","truncate_prompt_tokens":7,"truncation_side":"left"}`, Cut{Keep: 7}, ""},
		"the other side":                       {Completions, `{"prompt":"a","truncate_prompt_tokens":7,"truncation_side":"right"}`, Cut{Keep: 7, First: true}, ""},
		"as many as fit":                       {Completions, `{"prompt":"a","truncate_prompt_tokens":-1,"truncation_side":"right"}`, Cut{Keep: -1, First: true}, ""},
		"from the right where a vector comes":  {Embeddings, `{"input":"a","truncate_prompt_tokens":7}`, Cut{Keep: 7, First: true}, `{"prompt":"a","add_special_tokens":false}`},
		"a chat":                               {Chat, `{"messages":[],"truncate_prompt_tokens":7}`, Cut{Keep: 7}, ""},
		"a chat with special tokens":           {Chat, `{"messages":[],"truncate_prompt_tokens":7,"add_special_tokens":true}`, Cut{Keep: 7}, `{"messages":[],"add_special_tokens":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			p, why := TokenizeBody(c.endpoint, "vllm", []byte(c.body))
			if why != "" || p.Cut == nil {
				t.Fatalf("%s gives %+v (%s)", c.body, p, why)
			}
			if p.Cut.Keep != c.want.Keep || p.Cut.First != c.want.First || string(p.Cut.Bare) != c.bare {
				t.Errorf("%s is cut %+v, bare %s", c.body, p.Cut, p.Cut.Bare)
			}
		})
	}
	for _, body := range []string{`{"prompt":"a","truncate_prompt_tokens":0}`, `{"prompt":"a","truncate_prompt_tokens":"x"}`, `{"prompt":"a","truncate_prompt_tokens":7,"truncation_side":"top"}`} {
		if p, why := TokenizeBody(Completions, "vllm", []byte(body)); why == "" {
			t.Errorf("%s gives %+v", body, p)
		}
	}
}

func TestOnePrompt(t *testing.T) {
	for body, want := range map[string]bool{
		`{"input":"a"}`: true, `{"input":"a","tools":[{"type":"function"}]}`: true, `{"input":"a","tools":[{"type":"function"},{"type":"mcp"}]}`: false,
	} {
		if r, err := Parse(Responses, []byte(body)); err != nil || r.OnePrompt() != want {
			t.Errorf("%s: %v", body, err)
		}
	}
	for e, want := range map[Endpoint]bool{Messages: true, Chat: true, Completions: true, ChatBatch: false, Embeddings: true, Rerank: false} {
		if r, err := Parse(e, []byte(`{"model":"m"}`)); err != nil || r.OnePrompt() != want {
			t.Errorf("endpoint %d: %v", e, err)
		}
	}
	if r, err := Parse(Completions, []byte(`{"prompt":["a","b"]}`)); err != nil || r.OnePrompt() {
		t.Error("a batch")
	}
}

// TestToolsThatMayNotBeUsed: whether they are shown is a flag of vLLM's.
func TestToolsThatMayNotBeUsed(t *testing.T) {
	const (
		messages = `"messages":[{"role":"user","content":"a"}]`
		function = `{"type":"function","function":{"name":"n","parameters":{"type":"object"}}}`
	)
	for _, c := range []struct {
		endpoint Endpoint
		body     string
		forms    int
		trial    bool
	}{
		{Messages, `{` + messages + `,"tools":[{"name":"n","input_schema":{}}],"tool_choice":{"type":"none"}}`, 2, false},
		{Messages, `{` + messages + `,"tools":[{"name":"n","input_schema":{}}],"tool_choice":{"type":"auto"}}`, 1, false},
		{Messages, `{` + messages + `,"tool_choice":{"type":"none"}}`, 1, false},
		{Responses, `{"input":"a","tools":[{"type":"function","name":"n","parameters":{}}],"tool_choice":"none"}`, 2, true},
		{Responses, `{"input":"a","tools":[{"type":"function","name":"n","parameters":{}}],"tool_choice":"auto"}`, 1, false},
		{Responses, `{"input":"a","tool_choice":"none"}`, 1, false},
		{Chat, `{` + messages + `,"tools":[` + function + `],"tool_choice":"none"}`, 2, true},
		{Chat, `{` + messages + `,"tools":[` + function + `]}`, 1, false},
		{Chat, `{` + messages + `,"tools":[],"tool_choice":"none"}`, 1, false},
	} {
		p, why := TokenizeBody(c.endpoint, "vllm", []byte(c.body))
		if why != "" || len(p.Forms) != c.forms || (p.Trial != nil) != c.trial {
			t.Errorf("%s has %d forms and the trial %v (%s)", c.body, len(p.Forms), p.Trial, why)
			continue
		}
		if c.forms == 2 && (!bytes.Contains(p.Forms[0], []byte(`"tools"`)) || bytes.Contains(p.Forms[1], []byte(`"tools"`))) {
			t.Errorf("%s: %s", c.body, bytes.Join(p.Forms, []byte{'\n'}))
		}
		if c.trial && (len(p.Trial.Forms) != 2 || bytes.Contains(p.Trial.Forms[1], []byte(`"tools"`))) {
			t.Errorf("%s: its trial %s", c.body, bytes.Join(p.Trial.Forms, []byte{'\n'}))
		}
	}
	if p, why := TokenizeBody(Responses, "vllm", []byte(`{"input":[{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}],"tools":[{"type":"function","name":"n"}],"tool_choice":"none"}`)); why == "" {
		t.Errorf("calls, and tools that may not be used: %d forms", len(p.Forms))
	}
}

// TestFormsOfALongPromptAreBounded: 10 MB are converted, and not 18 times.
func TestFormsOfALongPromptAreBounded(t *testing.T) {
	long := strings.Repeat("long ", 2<<20)
	for engine, more := range map[string]string{
		"vllm":   `,{"role":"system","content":"i"}],"thinking":{"type":"disabled"}`,
		"sglang": `,{"role":"system","content":"i"}],"thinking":{"type":"adaptive"}`,
	} {
		body := `{"messages":[{"role":"user","content":"` + long + `"}`
		if p, why := TokenizeBody(Messages, engine, []byte(body+more+`}`)); !strings.Contains(why, "too long") || len(p.Forms) > 0 {
			t.Errorf("%s: %d forms (%s)", engine, len(p.Forms), why)
		}
		if p, why := TokenizeBody(Messages, engine, []byte(body+`]}`)); why != "" || len(p.Forms) != 1 {
			t.Errorf("%s: %d forms (%s)", engine, len(p.Forms), why)
		}
		items := `{"input":[` + strings.Repeat(`{"role":"user","content":"a"},{"role":"assistant","content":"b"},`, 20_000) + `{"role":"user","content":"c"}]}`
		if p, why := TokenizeBody(Responses, engine, []byte(items)); why != "" || len(p.Forms) != 1 {
			t.Errorf("%s: %d forms (%s)", engine, len(p.Forms), why)
		}
		same := `{"input":[` + strings.Repeat(`{"role":"assistant","content":"b"},`, 50_000) + `{"role":"user","content":"c"}]}`
		if p, why := TokenizeBody(Responses, engine, []byte(same)); why != "" || len(p.Forms) != 1 {
			t.Errorf("%s: %d forms (%s)", engine, len(p.Forms), why)
		}
	}
}
