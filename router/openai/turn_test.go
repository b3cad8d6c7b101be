package openai

import "testing"

func TestContinues(t *testing.T) {
	const user = `{"role":"user","content":"\"role\":\"assistant\""}`
	for _, c := range []struct {
		endpoint Endpoint
		body     string
		want     bool
	}{
		{Chat, `{"messages":[` + user + `]}`, false},
		{Chat, `{"messages":[` + user + `,{"content":"a","role":"assistant"},` + user + `]}`, true},
		{Chat, `{"messages":[` + user + `,{"role":"assistant","tool_calls":[]},{"role":"tool","content":"r"}]}`, true},
		{Chat, `{"messages":[7,` + user + `]}`, false},
		{Messages, `{"system":"s","messages":[` + user + `,{"role":"assistant","content":[]},` + user + `]}`, true},
		{Responses, `{"input":"a"}`, false},
		{Responses, `{"input":"a","previous_response_id":"resp_1"}`, true},
		{Responses, `{"input":[` + user + `]}`, false},
		{Responses, `{"input":[` + user + `,{"type":"function_call","name":"f"},{"type":"function_call_output"}]}`, true},
		{Completions, `{"prompt":"a"}`, false},
	} {
		r, err := Parse(c.endpoint, []byte(c.body))
		if err != nil || r.Continues() != c.want {
			t.Errorf("%s: %v, %v", c.body, r != nil && r.Continues(), err)
		}
	}
}
