package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func canonical(t interface {
	Helper()
	Fatal(args ...any)
}, body string,
) []byte {
	t.Helper()
	r, err := Parse(Chat, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r.AppendCanonical(nil)
}

func TestI5SpellingDoesNotMatter(t *testing.T) {
	want := canonical(t, `{"messages":[{"role":"user","content":"é/\n"}],"tools":[{"a":1}],"model":"x"}`)
	for _, body := range []string{
		`{"tools" : [ { "a" : 1 } ], "messages":[ {"content":"\u00e9\/\u000a", "role":"us\u0065r"} ] }`,
		`{"temperature":0.1,"messages":[{"content":"é/\n","name":null,"role":"user"}],"tools":[{"a":1}]}`,
	} {
		if got := canonical(t, body); !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"é/\n"}]}`,
		`{"messages":[{"role":"system","content":"é/\n"}],"tools":[{"a":1}]}`,
		`{"messages":[{"role":"user","content":"é/\n","name":"x"}],"tools":[{"a":1}]}`,
		`{"messages":[{"role":"user","content":["é/\n"]}],"tools":[{"a":1}]}`,
		`{"messages":[{"role":"user","content":"é/\n"}],"tools":[{"a":"1"}]}`,
		`{"messages":[{"role":"user","content":"é/\n"}],"tools":[{"a":[1]}]}`,
		`{"messages":[{"role":"user"},{"content":"é/\n"}],"tools":[{"a":1}]}`,
	} {
		if bytes.Equal(canonical(t, body), want) {
			t.Errorf("%s: equal to another prompt", body)
		}
	}
}

func TestI5LongerConversationsExtendShorterOnes(t *testing.T) {
	message := rapid.Custom(func(t *rapid.T) string {
		role := rapid.SampledFrom([]string{"system", "user", "assistant", "tool"}).Draw(t, "role")
		content, err := json.Marshal(rapid.String().Draw(t, "content"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "parts") {
			content = []byte(fmt.Sprintf(`[{"type":"text","text":%s}]`, content))
		}
		return fmt.Sprintf(`{"role":%q,"content":%s}`, role, content)
	})
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(message, 1, 6).Draw(t, "messages")
		n := rapid.IntRange(0, len(messages)).Draw(t, "n")
		short := canonical(t, `{"messages":[`+strings.Join(messages[:n], ",")+`]}`)
		long := canonical(t, `{"messages":[`+strings.Join(messages, " , ")+`]}`)
		if !bytes.HasPrefix(long, short) {
			t.Fatalf("%q is no prefix of %q", short, long)
		}
	})
}

func TestCanonicalPrompts(t *testing.T) {
	for _, c := range []struct {
		endpoint   Endpoint
		body, want string
	}{
		{Completions, `{"prompt":"plain \u0041"}`, "plain A"},
		{Completions, `{"prompt":["first","second"]}`, "first"},
		{Completions, `{"prompt":[1,2]}`, ""},
		{Responses, `{"input":"x"}`, "\xf9\xfauser\xfax"},
		{Responses, `{"input":[{"role":"user","content":"x"}],"instructions":"i"}`, "\xf9i\xf9\xfauser\xfax"},
	} {
		if got := mustParse(t, c.endpoint, c.body).AppendCanonical(nil); string(got) != c.want {
			t.Errorf("%s: %q", c.body, got)
		}
	}
}

func TestPromptBodyLeavesOutSampling(t *testing.T) {
	r := mustParse(t, Chat, `{"model":"m","temperature":1,"messages":[ ],"stream":true,"chat_template_kwargs":{"a":1},"user":"u"}`)
	if got := string(r.PromptBody()); got != `{"model":"m","messages":[ ],"chat_template_kwargs":{"a":1}}` {
		t.Fatal(got)
	}
	if r.body.raw == nil {
		t.Fatal("asking for the prompt edited the request")
	}
}

// TestCanonicalBytesAreGolden: block keys of text are made of these bytes and
// cross between peers of two releases.
func TestCanonicalBytesAreGolden(t *testing.T) {
	got := canonical(t, `{"tools":[{"type":"function","n":[1,true,null]}],"messages":[
		{"content":[{"type":"text","text":"hi"}],"role":"user","name":"n"},{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}]}`)
	want := "\xf8\xfb\xfctype\xfafunction\xffn\xfa\xfb\xfe1\xff\xfetrue\xff\xfenull\xfd\xfd\xfd" +
		"\xf9\xfauser\xfan\xfa\xfb\xfctype\xfatext\xfftext\xfahi\xfd\xfd" +
		"\xf9\xfaassistant\xfatool_calls\xfa\xfb\xfcid\xfac\xfd\xfd"
	if string(got) != want {
		t.Fatalf("%q", got)
	}
}
