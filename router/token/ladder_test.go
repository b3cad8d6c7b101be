package token

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// vLLM from 0.30 on answers render with 403 unless it was started with
// --enable-scale-out; its tokenizer endpoint is always there.
func TestARenderThatIsDisabledFallsBackToTokenize(t *testing.T) {
	for code, body := range map[int]string{
		http.StatusForbidden:        `{"error":{"message":"Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.","type":"PermissionDeniedError","param":null,"code":403}}`,
		http.StatusNotFound:         `{"detail":"Not Found"}`,
		http.StatusMethodNotAllowed: `{"detail":"Method Not Allowed"}`,
		http.StatusNotImplemented:   `{"error":{"message":"The model does not support Chat Completions Render API"}}`,
	} {
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/tokenize" {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
				return
			}
			_, _ = io.WriteString(w, `{"count":4,"max_model_len":9,"tokens":[1,2,3,4]}`)
		})
		tok := newTokenizer(t, nil)
		for i, text := range []string{"a", "b"} {
			if k := tok.Keys(context.Background(), textQuery(e, text)); k.Scheme != Engine || len(k.Keys) != 1 {
				t.Fatalf("%d, prompt %d: %s by %s, want exact keys", code, i, k.Scheme, k.Reason)
			}
		}
		if n := e.asked.Load(); n != 3 {
			t.Errorf("%d: %d questions, want render, tokenize, tokenize", code, n)
		}
	}
}

// clock is a settable time.
type clock struct{ at atomic.Int64 } // seconds

func (c *clock) now() time.Time { return time.Unix(c.at.Load(), 0) }

func withClock(t *testing.T, change func(*Config)) (*Tokenizer, *clock) {
	c := &clock{}
	return newTokenizer(t, func(cfg *Config) {
		cfg.Now = c.now
		if change != nil {
			change(cfg)
		}
	}), c
}

// rungs answers render and tokenize by two functions.
func rungs(render, tokenize http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/render") {
			render(w, r)
			return
		}
		tokenize(w, r)
	}
}

func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

const fourTokens = `{"count":4,"tokens":[1,2,3,4]}`

// What is no answer to this prompt sends the question to the next rung, is
// remembered after three, and is told.
func TestABadAnswerAsksTheNextRung(t *testing.T) {
	for name, bad := range map[string]http.HandlerFunc{
		"another shape":        says(200, `{"tokens":"x"}`),
		"no JSON":              says(200, `<html>`),
		"no token":             says(200, `{"token_ids":[]}`),
		"a wrong count":        says(200, `{"token_ids":[1,2,3],"count":4}`),
		"ids of no vocabulary": says(200, `{"token_ids":[4000000000]}`),
		"lists in the list":    says(200, `{"token_ids":[[1,2]]}`),
		"a refusal":            says(400, `{"error":{"message":"no such field"}}`),
		"a shape refused":      says(422, `{"detail":[{"loc":["body","prompt"],"msg":"Field required"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, rungs(bad, says(200, fourTokens)))
			tok, _ := withClock(t, nil)
			for i := range 5 {
				k := tok.Keys(context.Background(), textQuery(e, strings.Repeat("a", i+1)))
				if k.Scheme != Engine || k.Rung() != Tokenize || k.Tokens != 4 {
					t.Fatalf("prompt %d: %s by %s", i, k.Scheme, k.Reason)
				}
			}
			if n := e.asked.Load(); n != 8 { // 3 with render, 2 without
				t.Errorf("%d questions: the bad rung does not rest after three", n)
			}
			if why := tok.Why(&Oracle{URL: e.URL, Engine: "vllm"}, Chat); !strings.HasPrefix(why, "/v1/chat/completions/render ") || strings.Contains(why, "tokenize") {
				t.Errorf("told %q", why)
			}
		})
	}
}

// A prompt that an engine refuses is the prompt's fault: no other server is
// asked, and a rung that has worked before does not rest.
func TestARejectedPromptIsAskedOfNobodyElse(t *testing.T) {
	code := atomic.Int64{}
	code.Store(200)
	first := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if c := int(code.Load()); c != 200 {
			w.WriteHeader(c)
			return
		}
		_, _ = io.WriteString(w, `{"token_ids":[1,2,3,4]}`)
	})
	second := newEngine(t, says(200, `{"token_ids":[1,2,3,4]}`))
	tok, _ := withClock(t, nil)
	ask := func(text string) Keys {
		q := textQuery(first, text)
		q.Engines = append(q.Engines, Oracle{URL: second.URL, Engine: "vllm"})
		return tok.Keys(context.Background(), q)
	}
	ask("a")
	code.Store(400)
	for i := range 6 {
		if k := ask(strings.Repeat("b", i+1)); k.Reason != Rejected {
			t.Fatalf("%s by %s", k.Scheme, k.Reason)
		}
	}
	code.Store(200)
	if k := ask("c"); k.Rung() != Render || second.asked.Load() != 0 {
		t.Errorf("%s by %s, the other server was asked %d times", k.Rung(), k.Reason, second.asked.Load())
	}
}

// vLLM says 404 of a model it does not serve: the endpoint is there.
func TestAnUnknownModelIsNoMissingEndpoint(t *testing.T) {
	unknown := atomic.Bool{}
	unknown.Store(true)
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if unknown.Load() {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, "{\"error\":{\"message\":\"The model `x` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}")
			return
		}
		_, _ = io.WriteString(w, fourTokens)
	})
	tok, _ := withClock(t, nil)
	if k := tok.Keys(context.Background(), textQuery(e, "a")); k.Reason != Rejected {
		t.Fatalf("%s by %s", k.Scheme, k.Reason)
	}
	unknown.Store(false)
	if k := tok.Keys(context.Background(), textQuery(e, "b")); k.Rung() != Render {
		t.Fatalf("%s by %s", k.Rung(), k.Reason)
	}
}

// Before 0.5.23 SGLang's /tokenize takes prompts and refuses messages.
func TestARungThatRefusesEveryChatStillTakesPrompts(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(string(body), "chat") {
			w.WriteHeader(400)
			return
		}
		_, _ = io.WriteString(w, fourTokens)
	})
	tok, now := withClock(t, nil)
	ask := func(k Kind, text string) Keys {
		q := textQuery(e, text)
		q.Kind, q.Engines[0].Engine = k, "sglang"
		return tok.Keys(context.Background(), q)
	}
	for i, want := range []Reason{Rejected, Rejected, Rejected, Unsupported, Unsupported} {
		if k := ask(Chat, strings.Repeat("chat", i+1)); k.Reason != want {
			t.Fatalf("chat %d: %s, want %s", i, k.Reason, want)
		}
	}
	if k := ask(Completion, "prompt"); k.Rung() != Tokenize {
		t.Fatalf("a prompt: %s by %s", k.Scheme, k.Reason)
	}
	q := textQuery(e, "items")
	q.Kind, q.Engines[0].Engine = Responses, "trtllm"
	if k := tok.Keys(context.Background(), q); k.Reason != Unsupported {
		t.Fatalf("an API without an endpoint: %s by %s", k.Scheme, k.Reason)
	}
	asked := e.asked.Load()
	now.at.Add(int64(reprobeAfter/time.Second) + 1)
	if k := ask(Chat, "chat again"); k.Reason != Rejected || e.asked.Load() != asked+1 {
		t.Fatalf("after the rest: %s after %d questions", k.Reason, e.asked.Load()-asked)
	}
}

// A server that came up again may be another release, or have other flags.
func TestARestartForgetsWhatWasMissing(t *testing.T) {
	here := atomic.Bool{}
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if !here.Load() {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, fourTokens)
	})
	tok, _ := withClock(t, nil)
	ask := func(life int64, text string) Keys {
		q := textQuery(e, text)
		q.Engines[0].Life = life
		return tok.Keys(context.Background(), q)
	}
	if k := ask(1, "a"); k.Reason != Unsupported {
		t.Fatalf("%s by %s", k.Scheme, k.Reason)
	}
	here.Store(true)
	if k := ask(1, "b"); k.Reason != Unsupported {
		t.Fatalf("asked while it rests: %s", k.Reason)
	}
	if k := ask(2, "c"); k.Rung() != Render {
		t.Fatalf("after the restart: %s by %s", k.Rung(), k.Reason)
	}
	// Two ranks behind the URL, one of which came up later: asked by turns they
	// are one server, and what it refuses is not asked again each time.
	here.Store(false)
	asked := int64(0)
	for i := range 6 {
		ask(3+int64(i%2), strings.Repeat("d", i+1))
		if i == 1 {
			asked = e.asked.Load()
		}
	}
	if n := e.asked.Load() - asked; n != 0 {
		t.Errorf("ranks of one server make it asked %d times more", n)
	}
}

// A render server is asked first; the replica is asked when it cannot be.
func TestTheNextServerIsAskedWhenTheFirstFails(t *testing.T) {
	replica := newEngine(t, says(200, `{"token_ids":[1,2,3,4]}`))
	for name, first := range map[string]http.HandlerFunc{
		"fails": says(500, ""), "is busy": says(503, ""), "has no such endpoint": http.NotFound, "hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		tok, _ := withClock(t, nil)
		render := newEngine(t, first)
		for i := range 6 {
			q := textQuery(render, name+strings.Repeat("x", i))
			q.Engines = append(q.Engines, Oracle{URL: replica.URL, Engine: "vllm"})
			if k := tok.Keys(context.Background(), q); k.Rung() != Render || k.Reason != Asked {
				t.Fatalf("the first %s: %s by %s", name, k.Rung(), k.Reason)
			}
		}
		if n := render.asked.Load(); n == 0 || n > 6 {
			t.Errorf("the first %s: asked %d times for six prompts", name, n)
		}
	}
}

// The answer that nobody waited for is there for the next equal question.
func TestALateAnswerIsKept(t *testing.T) {
	release := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, fourTokens)
	})
	tok := newTokenizer(t, func(c *Config) { c.Deadline, c.Late = 50*time.Millisecond, time.Minute })
	if k := tok.Keys(context.Background(), textQuery(e, "a")); k.Reason != Timeout {
		t.Fatalf("%s by %s", k.Scheme, k.Reason)
	}
	<-e.paths
	close(release)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if k := tok.Keys(context.Background(), textQuery(e, "a")); k.Reason == Cached && k.Rung() == Render {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%s by %s", k.Scheme, k.Reason)
		}
	}
	if n := e.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// An answer that never ends holds nobody up, and ends at the bound.
func TestAnEndlessAnswerEnds(t *testing.T) {
	gone := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "1,"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
	})
	tok := newTokenizer(t, func(c *Config) { c.Deadline, c.Late = time.Millisecond, 100*time.Millisecond })
	if k := tok.Keys(context.Background(), textQuery(e, "a")); k.Reason != Timeout {
		t.Fatalf("%s by %s", k.Scheme, k.Reason)
	}
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("it is still read")
	}
}

func TestI5QuestionsUnderWayAreBounded(t *testing.T) {
	release := make(deaf)
	tok := newTokenizer(t, func(c *Config) { c.Transport, c.Deadline = release, time.Nanosecond })
	var busy bool
	for i := range maxFlights + 1 {
		q := textQuery(nil, strings.Repeat("x", i))
		q.Engines = []Oracle{{URL: "http://127.0.0.1:" + strconv.Itoa(i), Engine: "vllm"}}
		busy = tok.Keys(context.Background(), q).Reason == Busy
	}
	if !busy {
		t.Errorf("more than %d questions are under way", maxFlights)
	}
	close(release)
}

// An endpoint that counts other tokens than its engine tells keys that match
// nothing: gpt-oss's chats, say, are not rendered by its template.
func TestARungThatItsEngineContradictsRests(t *testing.T) {
	e := newEngine(t, rungs(says(403, ""), says(200, `{"tokens":[`+strings.TrimSuffix(strings.Repeat("1,", 40), ",")+`]}`)))
	var told []Reason
	tok, now := withClock(t, func(c *Config) { c.Inexact = func(_ *Query, why Reason) { told = append(told, why) } })
	ask := func(text string) Keys { return tok.Keys(context.Background(), textQuery(e, text)) }
	for i, off := range []int{50, 50, 41, 50, 50, 36, 35} { // a few tokens more or less are the end of the prompt
		k := ask(strings.Repeat("a", i))
		if k.Rung() != Tokenize {
			t.Fatalf("%d: %s by %s", i, k.Scheme, k.Reason)
		}
		tok.Verify(&k, off)
	}
	if k := ask("a"); k.Reason == Cached {
		t.Error("a wrong answer is still cached")
	} else {
		tok.Verify(&k, 50)
	}
	k := ask("b")
	tok.Verify(&k, 99)
	if k := ask("c"); k.Scheme != Text || k.Reason != Differs {
		t.Fatalf("after three wrong counts in a row: %s by %s", k.Scheme, k.Reason)
	}
	if n := tok.Stats().Wrong[Tokenize]; n != 7 || len(told) != 1 || told[0] != Differs {
		t.Errorf("%d wrong answers counted, told %v", n, told)
	}
	now.at.Add(61)
	if k := ask("d"); k.Rung() != Tokenize {
		t.Errorf("after a minute: %s by %s", k.Scheme, k.Reason)
	}
	given := tok.Keys(context.Background(), &Query{Tokens: []uint32{1}})
	tok.Verify(&given, 99) // nobody was asked
}

// What makes a model inexact is told once, what passes is told when it stays.
func TestALossIsToldOnce(t *testing.T) {
	here := atomic.Int64{}
	here.Store(403)
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if c := int(here.Load()); c != 200 {
			w.WriteHeader(c)
			return
		}
		_, _ = io.WriteString(w, fourTokens)
	})
	var told []Reason
	tok, now := withClock(t, func(c *Config) { c.Inexact = func(_ *Query, why Reason) { told = append(told, why) } })
	n := 0
	ask := func() {
		n++
		tok.Keys(context.Background(), textQuery(e, strings.Repeat("a", n)))
	}
	for range 5 {
		ask()
	}
	if len(told) != 1 || told[0] != Unsupported {
		t.Fatalf("told %v", told)
	}
	if m := tok.Modes(); len(m) != 1 || !m[0].Inexact() {
		t.Fatalf("%+v", m)
	}
	here.Store(200)
	now.at.Add(61)
	ask()
	if m := tok.Modes(); m[0].Inexact() || m[0].Rung != Render {
		t.Fatalf("%+v", m)
	}
	here.Store(503)
	for range missedMany - 1 {
		ask()
	}
	if len(told) != 1 {
		t.Fatalf("a passing trouble is told after %d prompts: %v", missedMany-1, told)
	}
	ask()
	if len(told) != 2 {
		t.Fatalf("a trouble that stays is not told: %v", told)
	}
	s := tok.Stats()
	if s.Models[ModelCount{"m", Render, Asked}] != 1 || s.Models[ModelCount{"m", Rung(Text), Unsupported}] != 5 {
		t.Errorf("%v", s.Models)
	}
}

func TestI5ModelsAreBounded(t *testing.T) {
	tok := newTokenizer(t, func(c *Config) { c.Mode = "text" })
	for i := range maxModels + 50 {
		q := textQuery(nil, "a")
		q.Model = strconv.Itoa(i)
		tok.Keys(context.Background(), q)
	}
	s := tok.Stats()
	if len(s.Models) != maxModels+1 || s.Models[ModelCount{otherModels, Rung(Text), Configured}] != 50 || len(tok.Modes()) != maxModels {
		t.Errorf("%d models, %d modes", len(s.Models), len(tok.Modes()))
	}
}

// Error messages may quote the prompt; nothing of them is kept, nor of an answer
// that is no list of token ids.
func TestWhatIsKeptOfARefusalHoldsNoPrompt(t *testing.T) {
	for _, code := range []int{400, 403, 404, 422, 500, 503} {
		for _, body := range []string{`{"error":{"message":"my secret"}}`, `{"detail":"my secret"}`, `"NotFoundError" my secret`} {
			err := refused(&http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body))})
			if want := "answered " + strconv.Itoa(code); !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%d %s: %v", code, body, err)
			}
		}
	}
	for _, body := range []string{`my secret`, `["my secret"]`, `{"tokens":"my secret"}`, `{"count":12345,"count":"my secret"}`, `{"max_model_len":1.2345678}`} {
		if _, err := decode([]byte(body)); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "345") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// Ten megabytes of a prompt are asked about like any other.
func TestALargePromptIsAsked(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"token_ids":[`+strings.TrimSuffix(strings.Repeat("100000,", int(n/10)), ",")+`]}`)
	})
	tok := newTokenizer(t, func(c *Config) { c.Deadline = time.Minute })
	if k := tok.Keys(context.Background(), textQuery(e, strings.Repeat("0123456789", 1<<20))); k.Rung() != Render || k.Tokens != 1<<20 {
		t.Fatalf("%s by %s, %d tokens", k.Scheme, k.Reason, k.Tokens)
	}
}
