package standin

import "testing"

// Context here, generation there: the second leg computes only the tail and
// says what one server would have said.
func TestContextHandsOverToGeneration(t *testing.T) {
	p, d := start(t, Config{Name: "p", Engine: TRTLLM}), start(t, Config{Name: "d", Engine: TRTLLM})
	type handed struct {
		Choices []struct {
			Finish  string         `json:"finish_reason"`
			Params  map[string]any `json:"disaggregated_params"`
			Message struct{ Content string }
		}
		PromptIDs []uint32 `json:"prompt_token_ids"`
	}
	in := chatBody(words(1, 100), 8)
	in["disaggregated_params"] = obj{"request_type": "context_only", "disagg_request_id": 9}
	var first, second, whole handed
	post(t, p, "/v1/chat/completions", in, &first)
	c := first.Choices[0]
	if c.Finish != "length" || c.Params["disagg_request_id"] != 9.0 || c.Params["encoded_opaque_state"] == nil || len(first.PromptIDs) != 104 {
		t.Fatalf("%+v", first)
	}
	c.Params["request_type"] = "generation_only"
	in["disaggregated_params"], in["prompt_token_ids"] = c.Params, first.PromptIDs
	post(t, d, "/v1/chat/completions", in, &second)
	if st := d.State().Stats; st.Computed != 104-96 || second.Choices[0].Params != nil {
		t.Errorf("the generation leg computed %d tokens, %+v", st.Computed, second)
	}
	delete(in, "disaggregated_params")
	delete(in, "prompt_token_ids")
	post(t, p, "/v1/chat/completions", in, &whole)
	if whole.Choices[0].Message.Content != second.Choices[0].Message.Content {
		t.Error("two legs answer otherwise than one")
	}
	for _, bad := range []obj{{"request_type": "generation_only"}, {"request_type": "x"}, {"request_type": "generation_only", "first_gen_tokens": []int{1}, "ctx_request_id": 1, "encoded_opaque_state": "AA=="}} {
		in["disaggregated_params"] = bad
		if code := post(t, d, "/v1/chat/completions", in, nil); code != 400 {
			t.Errorf("%v: %d", bad, code)
		}
	}
}
