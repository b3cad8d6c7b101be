package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sglangCase is a body for SGLang's published classes.
type sglangCase struct{ api, body, server string }

// compareSGLang runs them: of what its tokenizer endpoint is asked they make the
// same chat as of the request itself, but for how to sample. TEST_SGLANG, or
// ~/.cache/banyan-sglang, is the folder that .ci/run makes.
func compareSGLang(t *testing.T, cases []sglangCase) {
	t.Helper()
	dir := cmp.Or(os.Getenv("TEST_SGLANG"), filepath.Join(os.Getenv("HOME"), ".cache", "banyan-sglang"))
	wheels, _ := filepath.Glob(filepath.Join(dir, "sglang-*.whl"))
	python := filepath.Join(dir, "venv", "bin", "python")
	if len(wheels) != 1 {
		t.Skipf("skipped: SGLang's published code is not here: %s holds %d wheels (.ci/run fetches it, TEST_SGLANG names another folder)", dir, len(wheels))
	}
	if out, err := exec.Command(python, "-c", "import openai").CombinedOutput(); err != nil {
		t.Skipf("the package openai is not in %s: %s", dir, out)
	}
	endpoints := map[string]Endpoint{"chat": Chat, "messages": Messages, "responses": Responses}
	var in bytes.Buffer
	for _, c := range cases {
		r, err := Parse(endpoints[c.api], []byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		p, why := TokenizeBody(endpoints[c.api], "sglang", r.PromptBody())
		if why != "" {
			t.Fatalf("%s: %s", c.body, why)
		}
		fmt.Fprintf(&in, `{"api":%q,"body":%s,"asks":[%s],"server":%s}`+"\n", c.api, c.body, bytes.Join(p.Forms, []byte{','}), c.server)
	}
	cmd := exec.Command(python, "testdata/sglang_tokenize.py", wheels[0])
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte{'\n'})
	if len(lines) != len(cases) {
		t.Fatalf("%d answers to %d bodies: %s", len(lines), len(cases), out)
	}
	for i, line := range lines {
		var differ []string
		if err := json.Unmarshal(line, &differ); err != nil {
			t.Errorf("%s\nSGLang says %s", cases[i].body, line)
			continue
		}
		for _, field := range differ {
			if !samplingFields[field] {
				t.Errorf("%s\non a server %s\ndiffers in %s", cases[i].body, cases[i].server, field)
			}
		}
	}
}

func TestSGLangRendersWhatItIsAsked(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"string"}}},"strict":true}}`
	bodies := []string{
		`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}],"temperature":0,"max_tokens":5,"stream":true,"stop":["x"]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"max_completion_tokens":5,"seed":1}`,
		`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":\"ü\"}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}],"tools":[` + tool + `]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[` + tool + `],"tool_choice":"none"}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[` + tool + `],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low"}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"reasoning_effort":"none"}`,
		`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"r"},{"role":"user","content":"c"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"continue_final_message":true,"add_generation_prompt":false}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"add_special_tokens":true,"add_generation_prompt":true}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_object"},"separate_reasoning":false,"no_such_field":1}`,
	}
	cases := make([]sglangCase, 0, len(bodies))
	for _, body := range bodies {
		cases = append(cases, sglangCase{"chat", body, "null"})
	}
	compareSGLang(t, cases)
}

// servers are the ways in which SGLang may be started that its conversions
// depend on.
func sglangServers() (out []string) {
	for _, inline := range []string{"true", "false"} {
		for _, thoughts := range []string{"apart", "inside", "gone"} {
			for _, toggle := range []string{"enable_thinking", "thinking", ""} {
				out = append(out, fmt.Sprintf(`{"inline":%s,"thoughts":%q,"toggle":%q}`, inline, thoughts, toggle))
			}
		}
	}
	return out
}

// TestSGLangConvertsMessages: one of the forms that the router asks for is the
// chat that SGLang's own code makes of a Messages body, however it was started.
func TestSGLangConvertsMessages(t *testing.T) {
	const (
		user = `{"role":"user","content":"a"}`
		tool = `{"name":"f","description":"d","input_schema":{"properties":{"x":{"type":"string","default":null}}}}`
	)
	var cases []sglangCase
	for _, body := range []string{
		`"messages":[` + user + `]`,
		`"messages":[` + user + `],"system":"s","temperature":0,"stop_sequences":["x"],"stream":true,"metadata":{"user_id":"u"}`,
		`"messages":[` + user + `],"system":" \n"`,
		`"messages":[` + user + `],"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}},{"type":"text","text":""},{"type":"text","text":" t"}]`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[]},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":""}]}]`,
		`"messages":[` + user + `,{"role":"system","content":" i\u00a0\n"},{"role":"assistant","content":"b"},{"role":"system","content":[{"type":"text","text":"j "},{"type":"text","text":"k"}]},` + user + `],"system":"s"`,
		`"messages":[` + user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"x"},{"type":"thinking","thinking":"ü\"t"},{"type":"text","text":"b"},{"type":"tool_use","id":"c","name":"f","input":{"x":"ü, \"y\": 1","z":[1.5,2]}}]},{"role":"user","content":[{"type":"text","text":"before"},{"type":"tool_result","tool_use_id":"c","content":"r"},{"type":"text","text":"after"}]}],"tools":[` + tool + `]`,
		`"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"tool_use","id":"d","name":"f"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"r"},{"type":"text","text":""},{"type":"text","text":"q"}],"is_error":true},{"type":"tool_result","tool_use_id":"d"}]}],"tools":[` + tool + `],"tool_choice":{"type":"auto"}`,
		`"messages":[` + user + `],"tools":[` + tool + `,{"name":"g","input_schema":{"type":"object"},"strict":true,"defer_loading":true}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}`,
		`"messages":[` + user + `],"tools":[` + tool + `,{"name":"g","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"g"}`,
		`"messages":[` + user + `],"tools":[` + tool + `],"tool_choice":{"type":"none"}`,
		`"messages":[` + user + `],"tools":[{"type":"web_search_20250305","name":"web_search"},` + tool + `]`,
		`"messages":[` + user + `],"tools":[{"type":"web_search_20250305","name":"web_search"}]`,
		`"messages":[` + user + `],"thinking":{"type":"enabled","budget_tokens":2048}`,
		`"messages":[` + user + `],"thinking":{"type":"disabled"}`,
		`"messages":[` + user + `],"thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"}`,
		`"messages":[` + user + `],"output_config":{"effort":"low"}`,
		`"messages":[` + user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]}],"thinking":{"type":"adaptive"},"chat_template_kwargs":{"a":1}`,
	} {
		for _, server := range sglangServers() {
			cases = append(cases, sglangCase{"messages", `{"model":"m","max_tokens":5,` + body + `}`, server})
		}
	}
	compareSGLang(t, cases)
}

// TestSGLangConvertsResponses: the same of Responses bodies.
func TestSGLangConvertsResponses(t *testing.T) {
	const tool = `{"type":"function","name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"default":null}}},"strict":true}`
	var cases []sglangCase
	for _, body := range []string{
		`"input":"a"`,
		`"input":"a","instructions":"s","stream":true,"store":true,"max_output_tokens":5,"text":{"format":{"type":"text"}}`,
		`"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"type":"message","role":"user","content":[{"type":"input_text","text":"c"}]}]`,
		`"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"s"},{"type":"summary_text","text":"t"}],"content":[{"type":"reasoning_text","text":"r"}]},{"type":"message","role":"assistant","id":"x","status":"completed","content":[{"type":"output_text","text":"b","annotations":[]}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"x\": \"ü\"}"},{"type":"function_call","call_id":"d","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"},{"type":"function_call_output","call_id":"d","output":[{"type":"input_text","text":"p"},{"type":"input_text","text":"q"}]}],"tools":[` + tool + `]`,
		`"input":[{"role":"user","content":"a"},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"r"}]},{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]},{"type":"reasoning","summary":[]},{"role":"assistant","content":"b"},{"role":"assistant","content":""},{"role":"assistant","content":"c"},{"role":"assistant","content":[{"type":"output_text","text":"d"}]},{"role":"assistant","content":"e"}]`,
		`"instructions":"s","input":[{"role":"developer","content":[{"type":"input_text","text":"d"},{"type":"input_text","text":"e"}]},{"role":"user","content":"a"}]`,
		`"instructions":"s","input":[{"role":"user","content":"a"},{"role":"developer","content":"d"},{"role":"system","content":"t"},{"role":"user","content":"b"}]`,
		`"input":[{"role":"system","content":[{"type":"input_text","text":"d"}]},{"role":"user","content":"a"}]`,
		`"input":"a","tools":[` + tool + `,{"type":"function","name":"g","description":"","parameters":{}}],"tool_choice":{"type":"function","name":"g"}`,
		`"input":"a","tools":[` + tool + `],"tool_choice":"none"`,
		`"input":"a","tools":[` + tool + `],"tool_choice":"required","parallel_tool_calls":false`,
		`"input":"a","reasoning":{"effort":"low","summary":"auto"}`,
		`"input":"a","reasoning":{"effort":"none"},"chat_template_kwargs":{"a":1}`,
		`"input":"a","reasoning":{"summary":"auto"}`,
		`"input":"a","reasoning":{"effort":null}`,
		`"input":"a","tools":[],"tool_choice":"auto","truncation":"auto","previous_response_id":null`,
	} {
		for _, inline := range []string{"true", "false"} {
			cases = append(cases, sglangCase{"responses", `{"model":"m",` + body + `}`, `{"inline":` + inline + `}`})
		}
	}
	compareSGLang(t, cases)
}

// TestSGLangFormsAreToldApart: what the server's start decides has a form each,
// and the rest is read.
func TestSGLangFormsAreToldApart(t *testing.T) {
	const user = `{"role":"user","content":"a"}`
	for body, want := range map[string]int{
		`{"messages":[` + user + `]}`:                                                        1,
		`{"messages":[` + user + `,{"role":"system","content":"b"}]}`:                        2,
		`{"messages":[` + user + `],"thinking":{"type":"adaptive"}}`:                         3,
		`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]}]}`: 3,
	} {
		if p, why := TokenizeBody(Messages, "sglang", []byte(body)); why != "" || len(p.Forms) != want || !p.Converted {
			t.Errorf("%s has %d forms, not %d (%s)", body, len(p.Forms), want, why)
		}
	}
	for body, forms := range map[string]int{
		`{"input":"a","instructions":"s"}`:                                               1,
		`{"input":[{"role":"developer","content":"d"},` + user + `]}`:                    1,
		`{"input":[{"role":"developer","content":"d"},` + user + `],"instructions":"s"}`: 2,
	} {
		p, why := TokenizeBody(Responses, "sglang", []byte(body))
		if why != "" || len(p.Forms) != forms || (p.Trial != nil) != (forms > 1) {
			t.Errorf("%s has %d forms and the trial %v (%s)", body, len(p.Forms), p.Trial, why)
		}
		if p.Trial != nil && len(p.Trial.Forms) != len(p.Forms) {
			t.Errorf("its trial has %d forms", len(p.Trial.Forms))
		}
	}
}

// TestSGLangIsNotAskedForWhatCannotBeRead says why.
func TestSGLangIsNotAskedForWhatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		endpoint  Endpoint
		body, why string
	}{
		{Messages, `{"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`, "type image"},
		{Messages, `{"messages":[{"role":"user","content":[{"type":"search_result"}]}]}`, "type search_result"},
		{Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"tool_reference","name":"f"}]}]}]}`, "type tool_reference"},
		{Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"","name":"f"}]}]}`, "no id"},
		{Messages, `{"messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"y"}]}]}`, "type redacted_thinking"}, // SGLang refuses it
		{Messages, `{"messages":[{"role":"tool","content":"a"}]}`, "role"},
		{Messages, `{"messages":[],"tools":[{"name":"n"}]}`, "input_schema"},
		{Messages, `{"messages":[],"tools":{}}`, "no list"},
		{Messages, `{"messages":7}`, "no messages"},
		{Messages, `{"messages":[],"system":7}`, "system prompt"},
		{Responses, `{"input":"a","previous_response_id":"r"}`, "previous_response_id"},
		{Responses, `{"input":"a","tools":[{"type":"web_search"}]}`, "web_search"},
		{Responses, `{"input":"a","tools":[{"type":"function","name":"n","parameters":{}}]}`, "no description"},
		{Responses, `{"input":[{"type":"custom_tool_call","name":"n"}]}`, "custom_tool_call"},
		{Responses, `{"input":[{"type":"function_call","call_id":"c","name":"n","arguments":"[]"}]}`, "no object"},
		{Responses, `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"x"}]}`, "encrypted"},
		{Responses, `{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`, "input_image"},
		{Responses, `{"input":[{"role":"assistant","phase":"commentary","content":"a"}]}`, "phase"},
		{Responses, `{"input":7}`, "no input"},
		{Rerank, `{"query":"a"}`, "no tokenizer endpoint"},
	} {
		if p, why := TokenizeBody(c.endpoint, "sglang", []byte(c.body)); len(p.Forms) > 0 || !strings.Contains(why, c.why) {
			t.Errorf("%s gives %d forms (%s)", c.body, len(p.Forms), why)
		}
	}
}
