package openai

import "testing"

func TestRequestsThatReadNoCache(t *testing.T) {
	for body, want := range map[string]bool{
		`{"prompt":"x","prompt_logprobs":0}`:             true,
		`{"prompt":"x","prompt_logprobs":null}`:          false,
		`{"prompt":"x","echo":true,"logprobs":1}`:        true,
		`{"prompt":"x","logprobs":1,"echo":true}`:        true,
		`{"prompt":"x","echo":true}`:                     false,
		`{"prompt":"x","echo":true,"logprobs":null}`:     false,
		`{"prompt":"x","echo":false,"logprobs":1}`:       false,
		`{"prompt":"x","logprobs":5}`:                    false,
		`{"messages":[],"logprobs":true,"echo":true}`:    false,
		`{"messages":[],"prompt_logprobs":1,"stream":0}`: true,
	} {
		endpoint := Completions
		if body[2] == 'm' {
			endpoint = Chat
		}
		r, err := Parse(endpoint, []byte(body))
		if err != nil || r.Uncached() != want {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
	}
}
