package standin

import (
	"encoding/base64"
	"strings"
	"testing"
)

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

func TestEmbeddings(t *testing.T) {
	s := start(t, Config{})
	var list struct {
		Data []struct {
			Index     int
			Embedding []float64
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if code := post(t, s, "/v1/embeddings", obj{"input": []string{"a b", "a b", "c"}}, &list); code != 200 || len(list.Data) != 3 || list.Usage.Prompt != 8 {
		t.Fatalf("%d %+v", code, list)
	}
	if a, b, c := list.Data[0].Embedding, list.Data[1].Embedding, list.Data[2].Embedding; len(a) != dimensions || a[0] != b[0] || a[0] == c[0] {
		t.Errorf("vectors %v, %v, %v", a, b, c)
	}
	var packed struct{ Data []struct{ Embedding string } }
	post(t, s, "/v1/embeddings", obj{"input": "a b", "encoding_format": "base64"}, &packed)
	if raw, err := base64.StdEncoding.DecodeString(packed.Data[0].Embedding); err != nil || len(raw) != 4*dimensions {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if code := post(t, s, "/v1/embeddings", obj{}, nil); code != 400 {
		t.Errorf("no input answers %d", code)
	}
}

func TestResponses(t *testing.T) {
	s := start(t, Config{})
	type response struct {
		Object string
		Output []struct{ Content []struct{ Text string } }
		Usage  struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	var text, list response
	post(t, s, "/v1/responses", obj{"instructions": "be brief", "input": "hello", "max_output_tokens": 4}, &text)
	post(t, s, "/v1/responses", obj{"input": []obj{
		{"role": "system", "content": "be brief"}, {"role": "user", "content": []obj{{"type": "input_text", "text": "hello"}}},
	}, "max_output_tokens": 4}, &list)
	var chat reply
	post(t, s, "/v1/chat/completions", obj{"messages": []obj{{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}}, "max_tokens": 4}, &chat)
	want := chat.Choices[0].Message.Content
	if text.Object != "response" || text.Output[0].Content[0].Text != want || list.Output[0].Content[0].Text != want || text.Usage.Output != 4 {
		t.Errorf("%+v\n%+v\nwant %q", text, list, want)
	}
	var stream string
	post(t, s, "/v1/responses", obj{"input": "hello", "max_output_tokens": 4, "stream": true}, &stream)
	for _, event := range []string{"event: response.created\n", "event: response.output_text.delta\n", "event: response.completed\n"} {
		if !strings.Contains(stream, event) {
			t.Errorf("no %q in %s", event, stream)
		}
	}
	if code := post(t, s, "/v1/responses", obj{"input": 3}, nil); code != 400 {
		t.Errorf("bad input answers %d", code)
	}
}
