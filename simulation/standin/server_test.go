package standin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/workload"
)

// patience bounds every wait of these tests.
const patience = time.Minute

// start runs a stand-in for one test.
func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Profile == "" {
		cfg.Profile = "fast"
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type obj = map[string]any

// send posts a JSON body.
func send(ctx context.Context, t testing.TB, s *Server, path string, in any) (*http.Response, error) {
	t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// post sends a body and decodes the answer into out.
func post(t testing.TB, s *Server, path string, in, out any) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := send(ctx, t, s, path, in)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, res, out)
}

func get(t testing.TB, s *Server, path string, out any) int {
	t.Helper()
	res, err := http.Get(s.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, res, out)
}

func decode(t testing.TB, res *http.Response, out any) int {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := out.(*string); ok {
		*text = string(b)
	} else if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			t.Fatalf("%v in %.300s", err, b)
		}
	}
	return res.StatusCode
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// reply is what clients read of an answer.
type reply struct {
	ID        string
	Object    string
	Model     string
	PromptIDs []uint32 `json:"prompt_token_ids"`
	Choices   []struct {
		Index     int
		Text      string
		Message   struct{ Role, Content string }
		Delta     struct{ Role, Content string }
		Finish    *string  `json:"finish_reason"`
		TokenIDs  []uint32 `json:"token_ids"`
		PromptIDs []uint32 `json:"prompt_token_ids"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
		Details    *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func (r *reply) cached() int {
	if r.Usage == nil || r.Usage.Details == nil {
		return 0
	}
	return r.Usage.Details.Cached
}

// words is a text of n words that depends on seed.
func words(seed uint64, n int) string { return workload.Segment{ID: seed, Tokens: n}.Text() }

func chatBody(content string, maxTokens int) obj {
	return obj{"model": "banyan-standin", "messages": []obj{{"role": "user", "content": content}}, "max_tokens": maxTokens}
}

func TestChatAndCompletionAnswer(t *testing.T) {
	s := start(t, Config{})
	var chat, text reply
	if code := post(t, s, "/v1/chat/completions", chatBody("Hello, world!", 5), &chat); code != 200 {
		t.Fatalf("status %d", code)
	}
	c := chat.Choices[0]
	if chat.Object != "chat.completion" || c.Message.Role != "assistant" || *c.Finish != "length" ||
		len(strings.Fields(c.Message.Content)) != 5 || chat.Usage.Completion != 5 || chat.Usage.Total != chat.Usage.Prompt+5 {
		t.Errorf("chat %+v", chat)
	}
	if post(t, s, "/v1/completions", obj{"prompt": []int{5, 6, 7}, "max_tokens": 3}, &text); text.Object != "text_completion" ||
		text.Usage.Prompt != 3 || len(strings.Fields(text.Choices[0].Text)) != 3 {
		t.Errorf("completion %+v", text)
	}
	var open reply
	post(t, s, "/v1/chat/completions", obj{"messages": []obj{{"role": "user", "content": "x"}}}, &open)
	if n := open.Usage.Completion; *open.Choices[0].Finish != "stop" || n < 1+defaultOutput/2 || n > 1+3*defaultOutput/2 {
		t.Errorf("without max_tokens: %d tokens, %s", n, *open.Choices[0].Finish)
	}
}

func TestCompletionTakesEveryFormOfPrompt(t *testing.T) {
	s := start(t, Config{})
	for _, c := range []struct {
		prompt  any
		choices int
		tokens  int
	}{
		{"three small words", 1, 4},
		{[]int{1, 2, 3}, 1, 3},
		{[]string{"one", "two words"}, 2, 2 + 3},
		{[][]int{{1}, {2, 3}}, 2, 3},
	} {
		for _, stream := range []bool{false, true} {
			in := obj{"prompt": c.prompt, "max_tokens": 2, "stream": stream, "stream_options": obj{"include_usage": true}}
			var got reply
			if stream {
				chunks := streamed(t, s, "/v1/completions", in)
				got = chunks[len(chunks)-1]
				seen := map[int]int{}
				for _, chunk := range chunks[:len(chunks)-1] {
					seen[chunk.Choices[0].Index] += len(strings.Fields(chunk.Choices[0].Text))
				}
				if len(seen) != c.choices || seen[c.choices-1] != 2 {
					t.Errorf("%v streams %v", c.prompt, seen)
				}
			} else if post(t, s, "/v1/completions", in, &got); len(got.Choices) != c.choices {
				t.Errorf("%v has %d choices", c.prompt, len(got.Choices))
			}
			if got.Usage.Prompt != c.tokens {
				t.Errorf("%v (stream %v) has %d tokens, want %d", c.prompt, stream, got.Usage.Prompt, c.tokens)
			}
		}
	}
}

// streamed reads a stream's chunks up to [DONE].
func streamed(t testing.TB, s *Server, path string, in any) (out []reply) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := send(ctx, t, s, path, in)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("status %d, %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case !ok:
			t.Fatalf("line %q", lines.Text())
		case data == "[DONE]":
			return out
		default:
			var chunk reply
			if err := json.Unmarshal([]byte(data), &chunk); err != nil {
				t.Fatalf("%v in %q", err, data)
			}
			out = append(out, chunk)
		}
	}
	t.Fatalf("stream ended after %d chunks: %v", len(out), lines.Err())
	return nil
}

func TestStreamSaysWhatTheWholeAnswerSays(t *testing.T) {
	s := start(t, Config{})
	in := chatBody("tell me", 12)
	var whole reply
	post(t, s, "/v1/chat/completions", in, &whole)
	in["stream"], in["return_token_ids"] = true, true
	chunks := streamed(t, s, "/v1/chat/completions", in)
	text, ids := "", []uint32(nil)
	for i, chunk := range chunks {
		c := chunk.Choices[0]
		if (i == 0) != (c.Delta.Role == "assistant") || (i == len(chunks)-1) != (c.Finish != nil) || chunk.Usage != nil {
			t.Errorf("chunk %d of %d: %+v", i, len(chunks), chunk)
		}
		text += c.Delta.Content
		ids = append(ids, c.TokenIDs...)
	}
	if text != whole.Choices[0].Message.Content || len(ids) != 12 || len(chunks[0].PromptIDs) != whole.Usage.Prompt {
		t.Errorf("streamed %q with %d ids after %d prompt ids, whole %q", text, len(ids), len(chunks[0].PromptIDs), whole.Choices[0].Message.Content)
	}
	delete(in, "return_token_ids")
	in["stream_options"] = obj{"include_usage": true}
	chunks = streamed(t, s, "/v1/chat/completions", in)
	last := chunks[len(chunks)-1]
	if len(last.Choices) != 0 || last.Usage == nil || last.Usage.Completion != 12 {
		t.Errorf("last chunk %+v", last)
	}
}

func TestCachedTokensAreReported(t *testing.T) {
	for _, hide := range []bool{false, true} {
		s := start(t, Config{HideCached: hide})
		in := chatBody(words(1, 100), 1)
		var first, second reply
		post(t, s, "/v1/chat/completions", in, &first)
		post(t, s, "/v1/chat/completions", in, &second)
		if first.Usage.Details != nil {
			t.Errorf("details %+v where nothing was cached: vLLM has null there", first.Usage.Details)
		}
		want := (first.Usage.Prompt - 1) / 16 * 16
		if hide {
			want = 0
		}
		if second.cached() != want || hide && second.Usage.Details != nil {
			t.Errorf("hide %v: %d of %d tokens cached, want %d", hide, second.cached(), first.Usage.Prompt, want)
		}
	}
}

// I1: the render endpoints, return_token_ids and /tokenize agree.
func TestRenderGivesTheEnginesTokens(t *testing.T) {
	s := start(t, Config{})
	in := obj{
		"messages": []obj{
			{"role": "system", "content": "You are terse. 日本語, naïve\n\n  code: x += 1;"},
			{"role": "user", "content": []obj{{"type": "text", "text": "what is"}, {"type": "image_url", "image_url": obj{"url": "http://x/y.png"}}}},
			{"role": "assistant", "content": nil, "tool_calls": []obj{{"id": "1"}}},
			{"role": "tool", "content": "42"},
		},
		"tools": []obj{{"type": "function"}}, "max_tokens": 1, "return_token_ids": true,
	}
	var render struct {
		TokenIDs []uint32 `json:"token_ids"`
	}
	var tokenize struct {
		Count  int
		MaxLen int `json:"max_model_len"`
		Tokens []uint32
	}
	var used reply
	post(t, s, "/v1/chat/completions/render", in, &render)
	post(t, s, "/tokenize", in, &tokenize)
	post(t, s, "/v1/chat/completions", in, &used)
	if len(render.TokenIDs) < 20 || !slices.Equal(render.TokenIDs, used.PromptIDs) || !slices.Equal(tokenize.Tokens, used.PromptIDs) {
		t.Errorf("render %v\ntokenize %v\nused %v", render.TokenIDs, tokenize.Tokens, used.PromptIDs)
	}
	if tokenize.Count != used.Usage.Prompt || tokenize.MaxLen == 0 {
		t.Errorf("count %d of %d, limit %d", tokenize.Count, used.Usage.Prompt, tokenize.MaxLen)
	}
	var list []struct {
		TokenIDs []uint32 `json:"token_ids"`
	}
	post(t, s, "/v1/completions/render", obj{"prompt": []string{"a b", "c"}}, &list)
	if len(list) != 2 || len(list[0].TokenIDs) != 3 || len(list[1].TokenIDs) != 2 {
		t.Errorf("completions render %+v", list)
	}
}

// I2.
func TestAnswersDependOnThePromptAlone(t *testing.T) {
	a, b := start(t, Config{Name: "a"}), start(t, Config{Name: "b", Page: 64, HashSeed: 9})
	ask := func(s *Server, text string) string {
		var r reply
		post(t, s, "/v1/chat/completions", chatBody(text, 8), &r)
		return r.Choices[0].Message.Content
	}
	one, same, other := ask(a, "one"), ask(b, "one"), ask(a, "two")
	if one != same || one == other || one != ask(a, "one") {
		t.Errorf("answers %q, %q and %q", one, same, other)
	}
}

// I3: a conversation carried on by a client hits everything it had.
func TestConversationHitsItsOwnPast(t *testing.T) {
	s := start(t, Config{})
	w, err := workload.Generate("multi_turn", workload.Options{Seed: 4, Requests: 60})
	if err != nil {
		t.Fatal(err)
	}
	said := map[uint64]string{}
	reached := map[int]int{} // session -> tokens with KV after its last turn
	for i := range w.Requests[:30] {
		r := &w.Requests[i]
		for a := r.After; a >= 0 && said[w.Requests[a].Reply] == ""; a = -1 {
			t.Fatal("I3 of workload is broken")
		}
		var got reply
		post(t, s, "/v1/chat/completions", obj{
			"messages":   r.Messages(func(id uint64) (string, bool) { text, ok := said[id]; return text, ok }),
			"max_tokens": r.Output,
		}, &got)
		said[r.Reply] = got.Choices[0].Message.Content
		if want := reached[r.Session] / 16 * 16; got.cached() < want {
			t.Errorf("request %d (turn %d): %d tokens cached, its past has %d", i, r.Turn, got.cached(), want)
		}
		reached[r.Session] = got.Usage.Total - 1
	}
}

// I6: a client that leaves frees its place.
func TestLeavingClientFreesItsPlace(t *testing.T) {
	s := start(t, Config{Profile: "demo", MaxSeqs: 1})
	ctx, leave := context.WithCancel(context.Background())
	in := chatBody("long", 20000)
	in["stream"] = true
	res, err := send(ctx, t, s, "/v1/chat/completions", in)
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	if _, err := io.ReadFull(res.Body, line); err != nil {
		t.Fatal(err)
	}
	if st := s.State().Stats; st.Running != 1 || st.Used == 0 {
		t.Fatalf("%+v", st)
	}
	leave()
	res.Body.Close()
	var next reply
	post(t, s, "/v1/chat/completions", chatBody("next", 1), &next)
	if st := s.State().Stats; st.Running != 0 || st.Used != 0 || st.Generated > 5000 {
		t.Errorf("after leaving: %+v", st)
	}
}

func ptr[T any](v T) *T { return &v }

func ExampleServer() {
	s, err := New(Config{Profile: "fast"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	res, err := http.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(`{"prompt": [1, 2, 3], "max_tokens": 4}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	var answer struct{ Choices []struct{ Text string } }
	_ = json.NewDecoder(res.Body).Decode(&answer)
	fmt.Println(answer.Choices[0].Text)
	// Output: sokat podis hotem loliv
}

// Adapters and salts keep equal prompts apart, whatever the hash says.
func TestNamespacesShareNothing(t *testing.T) {
	for _, engine := range []string{VLLM, SGLang, TRTLLM} {
		s := start(t, Config{Engine: engine, Loras: []string{"ad"}})
		for _, c := range []struct{ model, salt string }{{"", ""}, {"ad", ""}, {"", "s"}, {"ad", "s"}} {
			in := chatBody(words(1, 60), 1)
			in["model"], in["cache_salt"] = c.model, c.salt
			var first, again reply
			post(t, s, "/v1/chat/completions", in, &first)
			post(t, s, "/v1/chat/completions", in, &again)
			if first.cached() != 0 || again.cached() != 48 {
				t.Errorf("%s %+v: %d tokens cached at first, %d again", engine, c, first.cached(), again.cached())
			}
		}
	}
}
