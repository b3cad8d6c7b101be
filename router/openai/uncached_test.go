package openai

import "testing"

func TestRequestsThatReadNoCache(t *testing.T) {
	for body, want := range map[string]bool{
		`{"prompt":"x","prompt_logprobs":0}`:                             true,
		`{"prompt":"x","prompt_logprobs":null}`:                          false,
		`{"prompt":"x","echo":true,"logprobs":1}`:                        true,
		`{"prompt":"x","logprobs":1,"echo":true}`:                        true,
		`{"prompt":"x","echo":true}`:                                     false,
		`{"prompt":"x","echo":true,"logprobs":null}`:                     false,
		`{"prompt":"x","echo":false,"logprobs":1}`:                       false,
		`{"prompt":"x","logprobs":5}`:                                    false,
		`{"prompt":"x","echo":true,"use_beam_search":true,"logprobs":1}`: false, // its beams are requests of their own
		`{"prompt":"x","prompt_logprobs":1,"use_beam_search":true}`:      false,

		// vLLM counts a chat's top_logprobs as 0, not as missing.
		`{"messages":[],"echo":true}`:                          true,
		`{"messages":[],"logprobs":true,"echo":true}`:          true,
		`{"messages":[],"echo":true,"top_logprobs":2}`:         true,
		`{"messages":[],"echo":true,"top_logprobs":null}`:      false,
		`{"messages":[],"echo":false}`:                         false,
		`{"messages":[],"echo":true,"use_beam_search":true}`:   false,
		`{"messages":[],"prompt_logprobs":1,"stream":0}`:       true,
		`{"messages":[],"prompt_logprobs":null,"stream":true}`: false,

		`{"token_ids":[1],"sampling_params":{"prompt_logprobs":0}}`:               true,
		`{"token_ids":[1],"sampling_params":{"prompt_logprobs":null}}`:            false,
		`{"token_ids":[1],"sampling_params":{"prompt_logprob_token_ids":[3]}}`:    true,
		`{"token_ids":[1],"sampling_params":{"skip_reading_prefix_cache":true}}`:  true,
		`{"token_ids":[1],"sampling_params":{"skip_reading_prefix_cache":false}}`: false,
		`{"token_ids":[1],"sampling_params":{}}`:                                  false,
		`{"token_ids":[1],"prompt_logprobs":1}`:                                   false,
	} {
		endpoint := Completions
		switch body[2] {
		case 'm':
			endpoint = Chat
		case 't':
			endpoint = Generate
		}
		r, err := Parse(endpoint, []byte(body))
		if err != nil || r.Uncached() != want {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
	}
}
