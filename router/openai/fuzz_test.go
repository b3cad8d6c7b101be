package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var bodies = []string{
	``, `{}`, `{"messages":[]}`, `{"model":"m","messages":[{"role":"user","content":"h\u00e9\ud83d\ude00\ud800"}],"stream":true}`,
	`{"prompt":[1,2,3],"max_tokens":10}`, `{"prompt":[[1],[2,3]]}`, `{"prompt":["a","b"],"n":2}`, `{"input":[{"role":"user"}]}`,
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"x":-1.5e+10,"y":[true,false,null],"z":{"":{}}}`, "{\"a\":\"\\n\\/\\\"\"}",
	`{"messages":[],"stream_options":{"include_usage":false},"vllm_xargs":{"kv_transfer_params":1}}`,
	`{"system":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"metadata":{"user_id":"u"},"max_tokens":"8"}`,
	`{"instructions":"be brief","input":"hi","previous_response_id":"resp_1","conversation":{"id":"c"},"prompt_cache_key":"k"}`,
	`{"messages":[[{"role":"user","content":"a"}],[]]}`, `{"token_ids":[1,2],"sampling_params":{"max_tokens":3,"extra_args":{"kv_transfer_params":{}}}}`,
	`{"query":"q","documents":["a","b"],"logit_bias":{"1":-Infinity}}`, "\ufeff{}",
	`{"messages":[` + strings.Repeat(`[`, 200), `{"max_tokens":1e400,"messages":[]}`, "{\"a\":\"12345678\x00\"}", `{"a":00}`,
}

// FuzzParse holds I1 and I2 for any body: no panic; what is accepted
// encoding/json accepts too and reads alike; edits change what they name and
// nothing else.
func FuzzParse(f *testing.F) {
	for _, body := range bodies {
		for endpoint := Other; endpoint < endpoints; endpoint++ {
			f.Add(byte(endpoint), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, endpoint byte, body []byte) {
		r, err := Parse(Endpoint(endpoint)%endpoints, body)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Status != 400 || e.Message == "" {
				t.Fatalf("error %v", err)
			}
			return
		}
		body = bytes.TrimPrefix(body, []byte("\ufeff"))
		var twin map[string]json.RawMessage
		if err := json.Unmarshal(body, &twin); err != nil && !pythonNumber(body) {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		} else if err == nil {
			checkTwin(t, r, twin)
		}
		switch fields := fieldsOf(body); {
		case pythonNumber(body):
		case fields == len(r.body.members) && !bytes.Equal(r.Bytes(), body):
			t.Fatal("I2: unedited bytes differ")
		case fieldsOf(r.Bytes()) != len(r.body.members):
			t.Fatalf("I3: rendered with a field twice: %s", r.Bytes())
		}
		_ = r.AppendCanonical(nil)
		edited := r.Clone()
		edited.StripInternal()
		edited.AskUsage()
		edited.Set("model", []byte(`"new"`))
		if !pythonNumber(body) && (!json.Valid(edited.Bytes()) || !json.Valid(r.PromptBody())) {
			t.Fatalf("an edit broke the body: %s", edited.Bytes())
		}
		again, err := Parse(Endpoint(endpoint)%endpoints, edited.Bytes())
		if err != nil {
			t.Fatalf("the edited body does not parse: %v", err)
		}
		for _, m := range again.body.members {
			switch m.name {
			case "model", "stream_options":
			default:
				if slices.Contains(carriers, m.name) {
					continue
				}
				if isInternal(m.name) || !bytes.Equal(m.value, r.Get(m.name)) {
					t.Fatalf("I2: %q is %s, was %s", m.name, m.value, r.Get(m.name))
				}
			}
		}
	})
}

// fieldsOf counts the fields of an object as encoding/json finds them, each as
// often as it is there.
func fieldsOf(body []byte) (n int) {
	d := json.NewDecoder(bytes.NewReader(body))
	for _, _ = d.Token(); d.More(); n++ {
		var value json.RawMessage
		if _, err := d.Token(); err != nil || d.Decode(&value) != nil {
			return -1
		}
	}
	return n
}

// pythonNumber reports whether a body may hold one of the three numbers that
// Python's JSON has and encoding/json has not.
func pythonNumber(body []byte) bool {
	return bytes.Contains(body, []byte("NaN")) || bytes.Contains(body, []byte("Infinity"))
}

// checkTwin compares fields with what encoding/json reads.
func checkTwin(t *testing.T, r *Request, twin map[string]json.RawMessage) {
	t.Helper()
	if len(twin) != len(r.body.members) {
		t.Fatalf("I3: %d fields, encoding/json has %d", len(r.body.members), len(twin))
	}
	for _, m := range r.body.members {
		if !bytes.Equal(twin[m.name], m.value) {
			t.Fatalf("%q: %s, encoding/json has %s", m.name, m.value, twin[m.name])
		}
	}
	for name, got := range map[string]string{"model": r.Model, "user": r.User, "cache_salt": r.CacheSalt} {
		var want string
		if raw := twin[name]; raw != nil && json.Unmarshal(raw, &want) == nil && want != got {
			t.Fatalf("%s: %q, want %q", name, got, want)
		}
	}
}

// FuzzUnquote holds decoded strings against encoding/json.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{"", "a", `\n\t\b\f\r\/\\\"`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\ud83d\u0041`, `\ude00`, "é😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := []byte(`"` + s + `"`)
		end, err := skipString(raw, 0)
		valid := err == nil && end == len(raw)
		if want := json.Valid(raw); valid != want {
			t.Fatalf("%q: valid %v, encoding/json says %v", raw, valid, want)
		}
		if !valid || !utf8.Valid(raw) {
			return
		}
		var want string
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if got := unquote(raw); got != want {
			t.Fatalf("%q: %q, want %q", raw, got, want)
		}
	})
}

// FuzzSkipValue holds the scanner against encoding/json within the depth.
func FuzzSkipValue(f *testing.F) {
	for _, body := range bodies {
		f.Add([]byte(body))
	}
	f.Add([]byte(`[-0,0.5,1E-3,10]`))
	f.Add([]byte(` nul`))
	f.Fuzz(func(t *testing.T, b []byte) {
		end, err := skipValue(b, skipSpace(b, 0), 0)
		valid := err == nil && skipSpace(b, end) == len(b)
		if want := json.Valid(b); valid != want && !errors.Is(err, errDepth) && !pythonNumber(b) {
			t.Fatalf("%q: valid %v, encoding/json says %v", b, valid, want)
		}
	})
}

// FuzzStream feeds any bytes, cut anywhere, to everything that reads streams.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n"), uint8(7), uint8(100))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":null}\r\n\r\n: c\r\r"), uint8(1), uint8(30))
	f.Add([]byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n"), uint8(9), uint8(200))
	f.Add([]byte("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"cache_read_input_tokens\":2}}\n\n"), uint8(9), uint8(200))
	f.Add([]byte("data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":3,\"input_tokens_details\":{\"cached_tokens\":1}}}}\n\n"), uint8(9), uint8(200))
	f.Add([]byte("data: {\"usage\":1,\ndata: \"a\":2}\n\n"), uint8(3), uint8(5))
	f.Fuzz(func(t *testing.T, stream []byte, step, limit uint8) {
		s := Scanner{Limit: int(limit) + 1}
		var raw []byte
		emit := func(e Event) {
			raw = append(raw, e.Raw...)
			if e.Data == nil {
				return
			}
			chunk := ParseChunk(e.Data)
			cut := AppendWithoutUsage(nil, e)
			if json.Valid(e.Data) && !bytes.Contains(e.Data, []byte{'\n'}) && chunk.HasUsage {
				checkCut(t, e, cut)
			}
		}
		for rest := stream; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			s.Feed(rest[:n], emit)
			if len(s.held) > int(limit)+1 {
				t.Fatalf("holds %d bytes", len(s.held))
			}
			rest = rest[n:]
		}
		s.Flush(emit)
		if !bytes.Equal(raw, stream) {
			t.Fatalf("I4: raw %q of %q", raw, stream)
		}
		_ = ParseUsage(stream)
	})
}

// checkCut holds an event without usage against the same done by
// encoding/json.
func checkCut(t *testing.T, e Event, cut []byte) {
	t.Helper()
	var before, after map[string]json.RawMessage
	if json.Unmarshal(e.Data, &before) != nil {
		return
	}
	var data []byte
	var s Scanner
	keep := func(e Event) { data = bytes.Clone(e.Data) }
	s.Feed(cut, keep)
	s.Flush(keep)
	if err := json.Unmarshal(data, &after); err != nil {
		t.Fatalf("%q became %q: %v", e.Raw, cut, err)
	}
	if _, twice := after["usage"]; twice && bytes.Count(e.Data, []byte("usage")) == 1 {
		t.Fatalf("usage is still there: %q", cut)
	}
	for name, value := range before {
		if name != "usage" && !bytes.Equal(after[name], value) {
			t.Fatalf("%q changed: %q became %q", name, e.Raw, cut)
		}
	}
}

// FuzzConversations holds I5 for the APIs with a system prompt and stored turns,
// built of any strings: a longer conversation begins with the shorter one, the
// session is the one that was named, and no strip or question breaks the body.
func FuzzConversations(f *testing.F) {
	f.Add("be brief", "hi", "yes", "s-1", true)
	f.Add("", "\u2028\x00\"\\", "{}", "@/\\", false)
	f.Add("x", `"},{"role":"user","content":"`, "kv_transfer_params", "", true)
	f.Fuzz(func(t *testing.T, system, said, answer, session string, anthropic bool) {
		encode := func(v any) string {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}
		turn := `{"role":"user","content":` + encode(said) + `}`
		longer := turn + `,{"content":` + encode(answer) + `,"role":"assistant"}`
		endpoint, first, second := Responses, `{"instructions":`+encode(system)+`,"input":`+encode(said), `{"input":[`+longer+`],"instructions":`+encode(system)
		if anthropic {
			endpoint, first, second = Messages, `{"system":`+encode(system)+`,"messages":[`+turn+`]`, `{"messages":[`+longer+`],"system":`+encode(system)
		}
		end := `,"session_id":` + encode(session) + `,"vllm_xargs":{"kv_transfer_params":{}}}`
		a, err := Parse(endpoint, []byte(first+end))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse(endpoint, []byte(second+end))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b.AppendCanonical(nil), a.AppendCanonical(nil)) {
			t.Fatalf("I5: %q does not begin with %q", b.AppendCanonical(nil), a.AppendCanonical(nil))
		}
		if want := string(bytes.ToValidUTF8([]byte(session), []byte("\ufffd"))); utf8.ValidString(session) && b.Session != want {
			t.Fatalf("session %q, want %q", b.Session, want)
		}
		if n := b.StripInternal(); n != 1 || !json.Valid(b.Bytes()) || !json.Valid(b.PromptBody()) {
			t.Fatalf("%d stripped: %s", n, b.Bytes())
		}
	})
}
