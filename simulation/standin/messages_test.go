package standin

import (
	"strings"
	"testing"
)

// The shapes of vLLM 0.32: what the cache held is told beside input_tokens, and
// in a stream only at its end.
func TestMessages(t *testing.T) {
	s := start(t, Config{})
	type reply struct {
		Type    string
		Content []struct{ Text string }
		Stop    string `json:"stop_reason"`
		Usage   struct {
			Input int `json:"input_tokens"`
			Read  int `json:"cache_read_input_tokens"`
		}
	}
	system := strings.Repeat("be brief and kind, ", 40)
	body := obj{"system": system, "messages": []obj{{"role": "user", "content": "hello"}}, "max_tokens": 4}
	var first, second reply
	post(t, s, "/v1/messages", body, &first)
	post(t, s, "/v1/messages", body, &second)
	var counted struct {
		Input int `json:"input_tokens"`
	}
	post(t, s, "/v1/messages/count_tokens", body, &counted)
	if first.Type != "message" || first.Stop != "max_tokens" || first.Content[0].Text == "" || first.Usage.Input != counted.Input {
		t.Errorf("%+v, counted %d", first, counted.Input)
	}
	if second.Usage.Read == 0 || second.Usage.Read+second.Usage.Input != counted.Input {
		t.Errorf("%+v, counted %d", second, counted.Input)
	}
	body["stream"] = true
	var stream string
	post(t, s, "/v1/messages", body, &stream)
	for _, event := range []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"} {
		if !strings.Contains(stream, "event: "+event+"\n") {
			t.Errorf("no %s in %s", event, stream)
		}
	}
	var failed struct{ Type string }
	if code := post(t, s, "/v1/messages", obj{"messages": []obj{}}, &failed); code != 400 {
		t.Errorf("no max_tokens: %d", code)
	}
}

// A stored response is found in the process that answered, until it ends.
func TestStoredResponses(t *testing.T) {
	s := start(t, Config{})
	var first, second struct{ ID string }
	post(t, s, "/v1/responses", obj{"input": "hello", "max_output_tokens": 4, "request_id": "resp_a"}, &first)
	if code := post(t, s, "/v1/responses", obj{"input": "more", "max_output_tokens": 4, "previous_response_id": "resp_a"}, &second); code != 200 || first.ID != "resp_a" || second.ID == "resp_a" {
		t.Errorf("%d %+v %+v", code, first, second)
	}
	if err := s.Restart(0); err != nil {
		t.Fatal(err)
	}
	if code := post(t, s, "/v1/responses", obj{"input": "more", "previous_response_id": "resp_a"}, nil); code != 404 {
		t.Errorf("after a restart: %d", code)
	}
}
