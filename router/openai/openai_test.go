package openai

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func mustParse(t *testing.T, endpoint Endpoint, body string) *Request {
	t.Helper()
	r, err := Parse(endpoint, []byte(body))
	if err != nil {
		t.Fatalf("Parse(%s): %v", body, err)
	}
	return r
}

func TestParseReadsWhatRoutingNeeds(t *testing.T) {
	r := mustParse(t, Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,
		"stream_options":{"include_usage":true},"max_tokens":7,"max_completion_tokens":9,"n":2,
		"user":"u\u00e9","cache_salt":"s","tools":[{"type":"function"}],"lora_path":"ad","temperature":1.0}`)
	if r.Model != "m" || !r.Stream || !r.IncludeUsage || r.MaxTokens != 9 || r.N != 2 ||
		r.User != "ué" || r.CacheSalt != "s" || r.LoRA != "ad" || string(r.Tools) != `[{"type":"function"}]` {
		t.Fatalf("got %+v", r)
	}
	if string(r.Messages) != `[{"role":"user","content":"hi"}]` {
		t.Fatalf("messages %s", r.Messages)
	}
}

func TestParsePrompts(t *testing.T) {
	for _, c := range []struct {
		endpoint Endpoint
		body     string
		kind     PromptKind
		count    int
		size     int
		text     string
		tokens   []uint32
	}{
		{Completions, `{"prompt":"a\nb"}`, TextPrompt, 1, 3, "a\nb", nil},
		{Completions, `{"prompt":["ab","c"]}`, TextPrompt, 2, 3, "ab", nil},
		{Completions, `{"prompt":[1, 2 ,4294967295]}`, TokenPrompt, 1, 3, "", []uint32{1, 2, 4294967295}},
		{Completions, `{"prompt":[[1,2],[3]]}`, TokenPrompt, 2, 3, "", []uint32{1, 2}},
		{Completions, `{"prompt":[[],[3]]}`, TokenPrompt, 2, 1, "", []uint32{}},
		{Embeddings, `{"input":["x"]}`, TextPrompt, 1, 1, "x", nil},
		{Responses, `{"input":"x"}`, TextPrompt, 1, 1, "x", nil},
		{Responses, `{"input":[{"role":"user","content":"x"}]}`, ItemsPrompt, 1, 31, "", nil},
		{Tokenize, `{"prompt":"x"}`, TextPrompt, 1, 1, "x", nil},
		{Chat, `{"messages":[],"prompt":5}`, NoPrompt, 0, 0, "", nil},
	} {
		p := mustParse(t, c.endpoint, c.body).Prompt
		if p.Kind != c.kind || p.Count != c.count || p.Size != c.size || p.Text != c.text || len(p.Tokens) != len(c.tokens) {
			t.Errorf("%s: %+v", c.body, p)
		}
		for i := range c.tokens {
			if p.Tokens[i] != c.tokens[i] {
				t.Errorf("%s: tokens %v", c.body, p.Tokens)
			}
		}
	}
}

func TestParseRefusesAndNamesTheField(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	many := `{"messages":[]`
	for i := range maxMembers {
		many += `,"f` + strings.Repeat("x", i) + `":1`
	}
	for _, c := range []struct{ body, param, says string }{
		{``, "", "empty"},
		{` `, "", "empty"},
		{`[]`, "", "not a JSON object"},
		{`nul`, "", "not a JSON object"},
		{`{`, "", "unexpected end"},
		{`{"messages":[]`, "", "unexpected end"},
		{`{"messages":[]} x`, "", "unexpected character 'x'"},
		{`{"messages":[],}`, "", "unexpected character '}'"},
		{`{"messages":[1,]}`, "", "unexpected character ']'"},
		{"{\"messages\":[],\"a\":\"\x01\"}", "", "unexpected character"},
		{"{\"messages\":[],\"a\":\"\xff\"}", "", "UTF-8"},
		{`{"messages":[],"a":"\x"}`, "", "unexpected character 'x'"},
		{`{"messages":[],"a":"\u12g4"}`, "", "unexpected character 'g'"},
		{`{"messages":[],"a":01}`, "", "unexpected character '1'"},
		{`{"messages":[],"a":nan}`, "", "unexpected character 'n'"},
		{`{"messages":[],"a":` + deep + `}`, "", "deeper"},
		{many + `}`, "", "more than 256"},
		{`{"messages":[]` + strings.Repeat(`,"model":"a"`, maxMembers) + `}`, "", "more than 256"},
	} {
		_, err := Parse(Chat, []byte(c.body))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%.60s: error %v", c.body, err)
			continue
		}
		if e.Status != 400 || e.Param != c.param || !strings.Contains(e.Message, c.says) {
			t.Errorf("%.60s: %+v, want param %q and %q", c.body, e, c.param, c.says)
		}
	}
}

// TestParseLeavesTheJudgementToTheEngine: pydantic in its lax mode takes most of
// these; of the others the engine's own words tell more than a router's.
func TestParseLeavesTheJudgementToTheEngine(t *testing.T) {
	for _, c := range []struct {
		endpoint Endpoint
		body     string
		is       func(r *Request) bool
	}{
		{Chat, `{"max_tokens":5.0}`, func(r *Request) bool { return r.MaxTokens == 5 }},
		{Chat, `{"max_tokens":" 5 "}`, func(r *Request) bool { return r.MaxTokens == 5 }},
		{Chat, `{"max_tokens":1e400}`, func(r *Request) bool { return r.MaxTokens == math.MaxInt32 }},
		{Chat, `{"max_tokens":-1}`, func(r *Request) bool { return r.MaxTokens == 0 }},
		{Chat, `{"max_tokens":[1]}`, func(r *Request) bool { return r.MaxTokens == 0 }},
		{Chat, `{"max_tokens":NaN}`, func(r *Request) bool { return r.MaxTokens == 0 }},
		{Chat, `{"n":2.0}`, func(r *Request) bool { return r.N == 2 }},
		{Chat, `{"n":0}`, func(r *Request) bool { return r.N == 1 }},
		{Chat, `{"stream":1}`, func(r *Request) bool { return r.Stream }},
		{Chat, `{"stream":"True"}`, func(r *Request) bool { return r.Stream }},
		{Chat, `{"stream":"on"}`, func(r *Request) bool { return r.Stream }},
		{Chat, `{"stream":0}`, func(r *Request) bool { return !r.Stream }},
		{Chat, `{"stream":"no"}`, func(r *Request) bool { return !r.Stream }},
		{Chat, `{"stream":{}}`, func(r *Request) bool { return !r.Stream }},
		{Chat, `{"stream":true,"stream_options":[]}`, func(r *Request) bool { return !r.AskUsage() }},
		{Chat, `{"stream":true,"stream_options":{"a":1,"a":2}}`, func(r *Request) bool {
			return r.AskUsage() && string(r.Bytes()) == `{"stream":true,"stream_options":{"a":2,"include_usage":true}}`
		}},
		{Chat, `{"model":"a","n":2,"mod\u0065l":"b"}`, func(r *Request) bool { return r.Model == "b" && string(r.Bytes()) == `{"mod\u0065l":"b","n":2}` }},
		{Chat, `{"a":` + strings.Repeat(`[{"b":`, 490) + "1" + strings.Repeat("}]", 490) + `,"n":2}`, func(r *Request) bool { return r.N == 2 }},
		{Chat, `{"stream":true,"stream_options":{"include_usage":"1"}}`, func(r *Request) bool { return !r.AskUsage() }},
		{Chat, `{"model":1,"messages":{},"tools":{}}`, func(r *Request) bool { return r.Model == "" && r.Messages == nil && r.Tools == nil }},
		{Chat, `{"model":null,"messages":null,"n":null,"stream":null,"max_tokens":null,"user":null}`, func(r *Request) bool { return r.N == 1 }},
		{Chat, `{"logit_bias":{"1":-Infinity,"2":Infinity}}`, func(r *Request) bool { return true }},
		{Chat, "\ufeff{\"model\":\"m\"}", func(r *Request) bool { return r.Model == "m" && string(r.Bytes()) == `{"model":"m"}` }},
		{Completions, `{"model":"m"}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":5}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[true]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":["a",1]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[1,"a"]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[1.0,2]}`, func(r *Request) bool { return slices.Equal(r.Prompt.Tokens, []uint32{1, 2}) }},
		{Completions, `{"prompt":[1.5]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[-1]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[4294967296]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[99999999999999999999999999]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[[1],2]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[[1],["a"]]}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
		{Completions, `{"prompt":[` + strings.Repeat(`"",`, 5000) + `""]}`, func(r *Request) bool { return r.Prompt.Count == 5001 }},
		{Embeddings, `{}`, func(r *Request) bool { return r.Prompt.Kind == NoPrompt }},
	} {
		r, err := Parse(c.endpoint, []byte(c.body))
		if err != nil {
			t.Errorf("%.60s: refused: %v", c.body, err)
		} else if !c.is(r) {
			t.Errorf("%.60s: read as %+v", c.body, r)
		}
	}
}

func TestErrorBodyIsTheOpenAIShape(t *testing.T) {
	var got struct{ Error map[string]any }
	if err := json.Unmarshal(Invalid("model", `bad "x"`).Body(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Error["param"] != "model" || got.Error["message"] != `bad "x"` || got.Error["type"] != TypeInvalid {
		t.Fatalf("%v", got)
	}
	body := string((&Error{Message: "m", Type: TypeServer}).Body())
	if body != `{"error":{"message":"m","type":"server_error","param":null,"code":null}}`+"\n" {
		t.Fatal(body)
	}
}

func TestI2EditsLeaveOtherBytesAlone(t *testing.T) {
	body := ` { "model" : "m", "messages":[ {"role":"user" , "content":"\u00e9"} ], "temperature": 1.00, "top_p":1e0 } `
	r := mustParse(t, Chat, body)
	if string(r.Bytes()) != body {
		t.Fatal("unedited bytes differ")
	}
	twin := r.Clone()
	r.Set("model", []byte(`"x"`))
	r.Set("extra", []byte(`[1]`))
	if !r.Delete("top_p") || r.Delete("top_p") {
		t.Fatal("Delete must report")
	}
	want := `{"model":"x","messages":[ {"role":"user" , "content":"\u00e9"} ],"temperature":1.00,"extra":[1]}`
	if got := string(r.Bytes()); got != want {
		t.Fatalf("got %s", got)
	}
	if string(twin.Bytes()) != body || string(twin.Get("model")) != `"m"` || string(r.Get("model")) != `"x"` || r.Get("none") != nil {
		t.Fatal("an edit showed in the clone")
	}
}

func TestStripInternal(t *testing.T) {
	r := mustParse(t, Chat, `{"messages":[],"kv_transfer_params":{"remote_host":"10.0.0.1"},"bootstrap_host":"evil",
		"bootstrap_roo\u006d":1,"disaggregated_params":{},"rid":"x","keep":1,
		"data_parallel_rank_decode":1,"routed_dp_rank":2,"nvext":{"backend_instance_id":1,"ok":3},
		"vllm_xargs":{"kv_transfer_params":{"a":1},"ok":2}}`)
	if n := r.StripInternal(); n != 9 {
		t.Fatalf("stripped %d", n)
	}
	if got := string(r.Bytes()); got != `{"messages":[],"keep":1,"nvext":{"ok":3},"vllm_xargs":{"ok":2}}` {
		t.Fatal(got)
	}
	if n := r.StripInternal(); n != 0 {
		t.Fatal("second time")
	}
}

func TestAskUsage(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{`{"messages":[],"stream":true}`, `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"messages":[],"stream":true,"stream_options":null}`, `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"messages":[],"stream":true,"stream_options":{"include_usage":false, "x":1}}`, `{"messages":[],"stream":true,"stream_options":{"include_usage":true,"x":1}}`},
		{`{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`, ""},
		{`{"messages":[],"stream":false}`, ""},
	} {
		r := mustParse(t, Chat, c.in)
		if asked := r.AskUsage(); asked != (c.out != "") {
			t.Errorf("%s: asked %v", c.in, asked)
		}
		if want := c.out; want != "" && string(r.Bytes()) != want || want == "" && string(r.Bytes()) != c.in {
			t.Errorf("%s: %s", c.in, r.Bytes())
		}
	}
}

func TestTheNewerTokenLimitWins(t *testing.T) {
	for _, body := range []string{
		`{"messages":[],"max_tokens":7,"max_completion_tokens":9}`, `{"messages":[],"max_completion_tokens":9,"max_tokens":7}`,
	} {
		if r := mustParse(t, Chat, body); r.MaxTokens != 9 {
			t.Errorf("%s: %d", body, r.MaxTokens)
		}
	}
}

// TestStringsEndWhereTheyEnd puts every byte at every place of a string that
// spans several machine words.
func TestStringsEndWhereTheyEnd(t *testing.T) {
	for at := range 24 {
		for c := range 128 {
			s := []byte(`"` + strings.Repeat("x", 24) + `"`)
			s[1+at] = byte(c)
			end, err := skipString(s, 0)
			if want := json.Valid(s); (err == nil && end == len(s)) != want {
				t.Fatalf("byte %#x at %d: end %d, %v; encoding/json says %v", c, at, end, err, want)
			}
		}
	}
}
