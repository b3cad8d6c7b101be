package standin

import "testing"

// Prefill here, decode there: the second leg computes only the tail.
func TestPrefillHandsOverToDecode(t *testing.T) {
	p, d := start(t, Config{Name: "p"}), start(t, Config{Name: "d"})
	type handed struct {
		reply
		Params map[string]any `json:"kv_transfer_params"`
	}
	in := chatBody(words(1, 100), 1)
	in["kv_transfer_params"] = obj{"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": nil, "remote_block_ids": nil, "remote_host": nil, "remote_port": nil}
	var first handed
	post(t, p, "/v1/chat/completions", in, &first)
	if first.Params["do_remote_prefill"] != true || len(first.Params["remote_block_ids"].([]any)) != 6 || *first.Choices[0].Finish != "length" {
		t.Fatalf("prefill leg answers %+v", first.Params)
	}
	in["kv_transfer_params"], in["max_tokens"] = first.Params, 8
	var second handed
	post(t, d, "/v1/chat/completions", in, &second)
	if st := d.State().Stats; st.Computed != 104-96 || second.cached() != 96 || second.Params != nil {
		t.Errorf("decode leg computed %d tokens, %d cached, params %v", st.Computed, second.cached(), second.Params)
	}
	var whole reply
	delete(in, "kv_transfer_params")
	post(t, p, "/v1/chat/completions", in, &whole)
	if whole.Choices[0].Message.Content != second.Choices[0].Message.Content {
		t.Error("two legs answer otherwise than one")
	}
	short := chatBody("hi", 1)
	short["kv_transfer_params"] = obj{"do_remote_decode": true}
	var none handed
	if post(t, p, "/v1/chat/completions", short, &none); none.Params != nil {
		t.Errorf("a prompt without a full block hands over %v", none.Params)
	}
	short["kv_transfer_params"] = obj{"do_remote_prefill": true}
	if code := post(t, d, "/v1/chat/completions", short, nil); code != 400 {
		t.Errorf("a decode leg without an address answers %d", code)
	}
}
