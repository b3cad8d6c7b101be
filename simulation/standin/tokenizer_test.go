package standin

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/simulation/workload"
)

func TestWordsAreOneTokenEach(t *testing.T) {
	s := workload.Segment{ID: 5, Tokens: 100}
	if got := appendText(nil, s.Text()); !slices.Equal(got, s.AppendTokens(nil)) {
		t.Errorf("%d tokens for %d words", len(got), s.Tokens)
	}
}

func TestPieces(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"a b":                     "a| |b",
		"x1_y, z!":                "x1_y|,| |z|!",
		"a  b\n\nc\t":             "a|  |b|\n\n|c|\t",
		"日本語 text":                "日本語| |text",
		"\xff\xfe":                "\xff|\xfe",
		strings.Repeat("long", 5): "longlonglonglong|long",
		"a\u0301b":                "a|\u0301|b",
		strings.Repeat("日本語日本語日", 1): "日本語日本語|日",
	} {
		var got []string
		for rest := text; rest != ""; {
			n := piece(rest)
			got, rest = append(got, rest[:n]), rest[n:]
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%q splits into %q, want %q", text, s, want)
		}
	}
}

// Tokens stay in the vocabulary, every byte is looked at, and text that ends
// on a space continues without a seam.
func TestTokensOfAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z ,.\n]{0,80}`)).Draw(t, "text")
		for _, id := range appendText(nil, text) {
			if id < workload.FirstWord || id >= vocabulary {
				t.Fatalf("token %d", id)
			}
		}
		more := rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "more")
		if !strings.HasSuffix(text, " ") && utf8.ValidString(text) {
			joined := appendText(nil, text+" "+more)
			if parts := appendText(appendText(nil, text), more); !slices.Equal(joined, parts) {
				t.Fatalf("%q + %q: %v, joined %v", text, more, parts, joined)
			}
		}
	})
}

// I3: the template only appends.
func TestTemplateAppends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generation{seed: rapid.Uint64().Draw(t, "seed"), output: rapid.IntRange(1, 30).Draw(t, "output")}
		history := []message{{Role: "user", Content: quoted(rapid.StringMatching(`[a-z ,.\n]{0,40}`).Draw(t, "user"))}}
		var err error
		if g.tokens, err = renderChat(history, nil); err != nil {
			t.Fatal(err)
		}
		said := string(g.text(nil, 0, g.output))
		history = append(history, message{Role: "assistant", Content: quoted(said)}, message{Role: "user", Content: quoted("more")})
		next, err := renderChat(history, nil)
		if err != nil {
			t.Fatal(err)
		}
		past := append(slices.Clone(g.tokens), g.answers(g.output)...)
		if len(next) <= len(past) || !slices.Equal(next[:len(past)], past) {
			t.Fatalf("I3: the past %v is not the beginning of %v", past, next)
		}
	})
}

func quoted(s string) []byte {
	return []byte(`"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(s) + `"`)
}

func FuzzBody(f *testing.F) {
	f.Add([]byte(`"text"`), []byte(`[{"role":"user","content":"x"}]`))
	f.Add([]byte(`[[1,2],[3]]`), []byte(`[{"role":"user","content":[{"type":"text","text":"x"}]}]`))
	f.Add([]byte(`["a","b"]`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, prompt, content []byte) {
		lists, err := completionPrompts(prompt)
		if err == nil && len(lists) == 0 {
			t.Error("no prompts and no error")
		}
		if tokens, err := appendContent(nil, content); err == nil {
			for _, id := range tokens {
				if id >= vocabulary {
					t.Errorf("token %d", id)
				}
			}
		}
	})
}
