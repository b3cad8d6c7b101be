package openai

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSGLangRendersWhatItIsAsked: SGLang's own published classes make the same
// chat of what its tokenizer endpoint is asked as of the chat itself, but for
// how to sample. TEST_SGLANG is a folder that .ci/run makes.
func TestSGLangRendersWhatItIsAsked(t *testing.T) {
	dir := os.Getenv("TEST_SGLANG")
	wheels, _ := filepath.Glob(filepath.Join(dir, "sglang-*.whl"))
	python := filepath.Join(dir, "venv", "bin", "python")
	if dir == "" || len(wheels) != 1 {
		t.Skipf("SGLang's published code is not here: TEST_SGLANG=%q holds %d wheels (.ci/run fetches it)", dir, len(wheels))
	}
	if out, err := exec.Command(python, "-c", "import openai").CombinedOutput(); err != nil {
		t.Skipf("the package openai is not in %s: %s", dir, out)
	}
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
	var in bytes.Buffer
	for _, body := range bodies {
		r, err := Parse(Chat, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		p, why := TokenizeBody(Chat, "sglang", r.PromptBody())
		if why != "" {
			t.Fatalf("%s: %s", body, why)
		}
		in.WriteString(`{"chat":` + body + `,"ask":` + string(p.Forms[0]) + "}\n")
	}
	cmd := exec.Command(python, "testdata/sglang_tokenize.py", wheels[0])
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte{'\n'})
	if len(lines) != len(bodies) {
		t.Fatalf("%d answers to %d bodies: %s", len(lines), len(bodies), out)
	}
	for i, line := range lines {
		var differ []string
		if err := json.Unmarshal(line, &differ); err != nil {
			t.Errorf("%s\nSGLang says %s", bodies[i], line)
			continue
		}
		for _, field := range differ {
			if !samplingFields[field] {
				t.Errorf("%s\ndiffers in %s", bodies[i], field)
			}
		}
	}
}
