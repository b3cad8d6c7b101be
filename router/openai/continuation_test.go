package openai

import (
	"slices"
	"strings"
	"testing"
)

func parsed(t *testing.T, e Endpoint, body string) *Request {
	t.Helper()
	r, err := Parse(e, []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

func TestWhichAnswersCanBeContinued(t *testing.T) {
	const chat = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true`
	const tool = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	for body, want := range map[string]string{
		chat + `}`: "",
		chat + `,"temperature":0,"max_tokens":5,"stop":[],"logprobs":false,"presence_penalty":0,"n":1,"seed":3,"user":"u"}`: "",
		chat + `,"stream_options":{"include_usage":true}}`:                                                                  "",
		chat + `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`:                                    "field",
		chat + `,"response_format":{"type":"text"}}`:                                                                        "",
		chat + `,"response_format":{"type":"json_object"}}`:                                                                 "field",
		chat + `,"stop":["x"]}`:                                     "field",
		chat + `,"presence_penalty":0.5}`:                           "field",
		chat + `,"logprobs":true}`:                                  "field",
		chat + `,"return_token_ids":true}`:                          "field",
		chat + `,"n":2}`:                                            "choices",
		chat + tool + `}`:                                           "tools",
		chat + tool + `,"tool_choice":"none"}`:                      "",
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`: "endpoint",
		`{"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`:                      "",
		`{"stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`: "images",
		`{"stream":true,"messages":"hi"}`: "images",
	} {
		if got := parsed(t, Chat, body).Continuable(); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"prompt":"hi","stream":true}`:              "",
		`{"prompt":[1,2],"stream":true}`:             "",
		`{"prompt":["a","b"],"stream":true}`:         "choices",
		`{"prompt":"hi","stream":true,"echo":true}`:  "field",
		`{"prompt":"hi","stream":true,"echo":false}`: "",
		`{"prompt":"hi","stream":true,"logprobs":0}`: "field",
		`{"prompt":"hi"}`:                            "endpoint",
	} {
		if got := parsed(t, Completions, body).Continuable(); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestContinuationAsksForTheRest(t *testing.T) {
	const asked = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"max_completion_tokens":10,"min_tokens":6,"temperature":0,"cache_salt":"s","n":1}`
	r, ok := parsed(t, Chat, asked).Continuation([]uint32{5, 6, 7}, []uint32{8, 9}, 100)
	if want := `{"prompt":[5,6,7,8,9],"stream":true,"max_tokens":8,"min_tokens":4,"model":"m","temperature":0,"cache_salt":"s"}`; !ok || string(r.Bytes()) != want {
		t.Errorf("%s", r.Bytes())
	}
	if r.Endpoint != Completions || r.Prompt.Kind != TokenPrompt || !slices.Equal(r.Prompt.Tokens, []uint32{5, 6, 7, 8, 9}) || r.CacheSalt != "s" || r.Model != "m" || !r.Stream {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		body   string
		length int
		want   string
	}{
		{`{"model":"m","messages":[],"stream":true}`, 9, `"max_tokens":4`},                  // what is left of the context
		{`{"model":"m","messages":[],"stream":true,"max_tokens":100}`, 9, `"max_tokens":4`}, // no more than that
		{`{"model":"m","messages":[],"stream":true,"max_tokens":4}`, 900, `"max_tokens":2`}, // of those asked for
		{`{"model":"m","messages":[],"stream":true,"max_tokens":2}`, 900, ""},               // none is left
		{`{"model":"m","messages":[],"stream":true}`, 5, ""},                                // the context is full
	} {
		r, ok := parsed(t, Chat, c.body).Continuation([]uint32{5, 6, 7}, []uint32{8, 9}, c.length)
		if ok != (c.want != "") || ok && !strings.Contains(string(r.Bytes()), c.want) {
			t.Errorf("%s in %d: %v %+v", c.body, c.length, ok, r)
		}
	}
	if r, ok := parsed(t, Completions, `{"prompt":"x","stream":true}`).Continuation([]uint32{5}, []uint32{8, 9}, 900); !ok || r.MaxTokens != 14 {
		t.Errorf("completions without a number: %+v", r)
	}
}

func TestReadPiece(t *testing.T) {
	text := func(p Piece) string {
		return string(p.Text) + "|" + string(p.Tokens) + "|" + string(p.Prompt) + "|" + string(p.Finish)
	}
	for data, want := range map[string]string{
		`{"id":"a","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"prompt_token_ids":[1,2]}`: `""||[1,2]|`,
		`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null,"token_ids":[7]}]}`:                                        `"x"|[7]||`,
		`{"choices":[{"index":0,"text":"x","finish_reason":"stop","token_ids":[7],"prompt_token_ids":[3]}]}`:                            `"x"|[7]|[3]|"stop"`,
		`{"choices":[{"index":0,"text":"x","token_ids":null,"prompt_token_ids":null}]}`:                                                 `"x"|||`,
		`[DONE]`:   `|||`,
		`{"error"`: `|||`,
	} {
		if got := text(ReadPiece([]byte(data))); got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
	if p := ReadPiece([]byte(`{"choices":[{"index":0,"delta":{"reasoning":"hm"},"token_ids":[7]}]}`)); !p.Other {
		t.Error("reasoning is no text")
	}
	if p := ReadPiece([]byte(`{"choices":[{"index":0,"delta":{},"token_ids":[7]}]}`)); !p.Empty || p.Other {
		t.Error("an empty delta")
	}
	if p := ReadPiece([]byte(`{"error":{"message":"EngineCore died","code":500}}`)); string(p.Code) != "500" {
		t.Errorf("an error: %+v", p)
	}
}

func TestTokensAreTakenOutAgain(t *testing.T) {
	for fed, want := range map[string]string{
		`{"id":"a","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null,"token_ids":[7]}]}`:             `{"id":"a","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null,"token_ids":null}]}`,
		`{"id":"a","choices":[{"index":0,"delta":{"role":"assistant"}}],"prompt_token_ids":[1,2],"prompt_text":null}`: `{"id":"a","choices":[{"index":0,"delta":{"role":"assistant"}}],"prompt_token_ids":null,"prompt_text":null}`,
		`{"choices":[{"text":"x","prompt_token_ids":[3],"token_ids":[7]}],"usage":null}`:                              `{"choices":[{"text":"x","prompt_token_ids":null,"token_ids":null}]}`,
		`{"choices":[{"text":"\"token_ids\":[1]"}]}`:                                                                  `{"choices":[{"text":"\"token_ids\":[1]"}]}`,
		`[DONE]`: `[DONE]`,
	} {
		event := Event{Raw: []byte("data: " + fed + "\n\n")}
		event.Data = event.Raw[6 : len(event.Raw)-2]
		if got := string(AppendWithoutTokens(nil, event, false)); got != "data: "+want+"\n\n" {
			t.Errorf("%s: %s", fed, got)
		}
	}
	if ids, ok := AppendIDs(nil, []byte(`[1, 2,4294967]`)); !ok || !slices.Equal(ids, []uint32{1, 2, 4294967}) {
		t.Error(ids, ok)
	}
	for _, bad := range []string{"", "null", `[1,"2"]`, `[-1]`, `[1.5]`} {
		if _, ok := AppendIDs(nil, []byte(bad)); ok {
			t.Errorf("%s passes for a list of ids", bad)
		}
	}
}

// FuzzContinuation: whatever a chunk holds, reading it does not panic, and taking
// the tokens out of it leaves a chunk that reads the same but for them.
func FuzzContinuation(f *testing.F) {
	f.Add([]byte(`{"id":"a","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null,"token_ids":[7]}],"prompt_token_ids":[1],"usage":null}`))
	f.Add([]byte(`{"choices":[{"text":"x","prompt_token_ids":[3],"token_ids":[7]}],"error":{"code":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := ReadPiece(data)
		out := AppendWithoutTokens(nil, Event{Raw: data, Data: data}, true)
		q := ReadPiece(out)
		if (q.Tokens != nil || q.Prompt != nil) && noTwins(data) {
			t.Fatalf("tokens are left: %q", out)
		}
		if string(p.Text) != string(q.Text) || string(p.Finish) != string(q.Finish) || p.Other != q.Other {
			t.Fatalf("%q became %q", data, out)
		}
	})
}

// noTwins reports whether neither the chunk nor a choice names a field twice: what
// does goes on as it came.
func noTwins(data []byte) bool {
	chunk, err := parseObject(data, 0)
	choices := chunk.get("choices")
	if err != nil || len(choices) == 0 || choices[0] != '[' {
		return err == nil
	}
	_, err = eachElement(choices, 0, 1, func(choice []byte) error {
		if choice[0] != '{' {
			return nil
		}
		_, err := parseObject(choice, 2)
		return err
	})
	return err == nil
}
