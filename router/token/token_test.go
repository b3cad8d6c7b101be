package token

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/radix"
	"pgregory.net/rapid"
)

var hasher = radix.NewHasher([]byte("secret"))

func newTokenizer(t *testing.T, change func(*Config)) *Tokenizer {
	t.Helper()
	cfg := Config{Hasher: hasher, Grid: 4, Mode: "auto", Deadline: 10 * time.Second}
	if change != nil {
		change(&cfg)
	}
	tok, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

// engine is a stand-in whose token ids are the bytes of the body it is sent.
type engine struct {
	*httptest.Server
	asked atomic.Int64
	paths chan string
}

func newEngine(t *testing.T, handle http.HandlerFunc) *engine {
	t.Helper()
	e := &engine{paths: make(chan string, 100)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.asked.Add(1)
		select {
		case e.paths <- r.URL.Path:
		default:
		}
		body, _ := io.ReadAll(r.Body) // or the server would not see the caller leave
		r.Body = io.NopCloser(bytes.NewReader(body))
		handle(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func answerIDs(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	ids := make([]uint32, len(body))
	for i, c := range body {
		ids[i] = uint32(c)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token_ids": ids})
}

func textQuery(e *engine, text string) *Query {
	q := &Query{
		Model: "m", Kind: Chat,
		Text: func(dst []byte) []byte { return append(dst, text...) },
		Body: func() []byte { return []byte(text) },
	}
	if e != nil {
		q.Engines = []Oracle{{URL: e.URL, Engine: "vllm"}}
	}
	return q
}

func idsOf(text string) []uint32 {
	ids := make([]uint32, len(text))
	for i := range text {
		ids[i] = uint32(text[i])
	}
	return ids
}

func TestConfigNamesEveryFault(t *testing.T) {
	_, err := New(Config{Mode: "x"})
	for _, part := range []string{"hasher", "grid", "tokenizer"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}

func TestTokenIDsAreExact(t *testing.T) {
	tok := newTokenizer(t, nil)
	k := tok.Keys(context.Background(), &Query{LoRA: "a", Salt: "s", Tokens: idsOf("abcdefghi")})
	want := hasher.AppendKeys(nil, TokenRoot(hasher, "a", "s"), 4, idsOf("abcdefghi"))
	if k.Scheme != Ids || !k.Scheme.Exact() || k.Tokens != 9 || k.Grid != 4 || !slices.Equal(k.Keys, want) {
		t.Fatalf("%+v", k)
	}
	short := tok.Keys(context.Background(), &Query{Tokens: []uint32{}})
	if short.Scheme != Ids || len(short.Keys) != 0 {
		t.Fatalf("%+v", short)
	}
}

func TestEngineKeysEqualIDKeysAndAreCached(t *testing.T) {
	e := newEngine(t, answerIDs)
	tok := newTokenizer(t, nil)
	text := "a prompt of some length"
	k := tok.Keys(context.Background(), textQuery(e, text))
	ids := tok.Keys(context.Background(), &Query{Model: "m", Tokens: idsOf(text)})
	if k.Scheme != Engine || k.Reason != Asked || !slices.Equal(k.Keys, ids.Keys) || k.Tokens != len(text) {
		t.Fatalf("%+v against %+v", k, ids)
	}
	again := tok.Keys(context.Background(), textQuery(e, text))
	if again.Reason != Cached || !slices.Equal(again.Keys, k.Keys) || e.asked.Load() != 1 {
		t.Fatalf("%+v after %d questions", again, e.asked.Load())
	}
	salted := textQuery(e, text)
	salted.Salt = "s"
	if other := tok.Keys(context.Background(), salted); other.Reason != Cached || slices.Equal(other.Keys, k.Keys) {
		t.Fatal("the salt must change the keys, not the question")
	}
	s := tok.Stats()
	if s.Counts[Count{Engine, Asked}] != 1 || s.Counts[Count{Engine, Cached}] != 2 || s.CacheLength != 1 {
		t.Fatalf("%+v", s)
	}
	if m := tok.Modes(); len(m) != 1 || m[0] != (Mode{Model: "m", Kind: Chat, Scheme: Engine, Rung: Render, Reason: Cached}) {
		t.Fatalf("mode of the model: %+v", m)
	}
	if path := <-e.paths; path != "/v1/chat/completions/render" {
		t.Fatal(path)
	}
}

func TestAnswersInTheirShapes(t *testing.T) {
	for _, raw := range []string{
		`{"token_ids":[1,2,3,4]}`, `{"tokens":[1, 2 ,3,4],"count":4}`, `[{"token_ids":[1,2,3,4]},{"token_ids":[9]}]`,
	} {
		r, err := decode([]byte(raw))
		if err != nil || !slices.Equal(r.tokens, []uint32{1, 2, 3, 4}) {
			t.Errorf("%s: %v %v", raw, r, err)
		}
	}
	for _, raw := range []string{
		``, `[]`, `{}`, `[1]`, `{"token_ids":null}`, `{"token_ids":["a"]}`, `{"token_ids":[1.5]}`, `{"token_ids":[-1]}`,
		`{"token_ids":[4294967296]}`, `{"token_ids":[16777216]}`, `{"token_ids":[]}`, `{"tokens":[1,2],"count":3}`, `{"tokens":[1],"count":"1"}`,
		`{"tokens":[[1,2]],"count":[2]}`, `{"token_ids":[[1]]}`, `<html>`, `{"tokens":"x"}`,
		`{"token_ids":[1],"features":{"mm_hashes":{},"mm_placeholders":{"image":[{"offset":0,"length":1}]}}}`,
		`{"token_ids":[1],"features":{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":0,"length":2}]}}}`,
		`{"token_ids":[1],"features":{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":-1,"length":1}]}}}`,
	} {
		if r, err := decode([]byte(raw)); err == nil {
			t.Errorf("%s: %v", raw, r)
		}
	}
}

func TestMultimodalBlocksAreNamedAsInEvents(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"token_ids":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20],
			"features":{"mm_hashes":{"image":["one","two"],"audio":["snd"]},"mm_placeholders":{
			"image":[{"offset":6,"length":5},{"offset":17,"length":1}],"audio":[{"offset":11,"length":0}]}}}`)
	})
	ids := make([]uint32, 21)
	for i := range ids {
		ids[i] = uint32(i)
	}
	plain := hasher.AppendHashes(nil, 4, ids)
	fold := func(at int, pairs string) radix.TokenHash { return hasher.Extra(plain[at], []byte(pairs)) }
	const head = "a\x00\x00\x00\x02s\x00\x00\x00\x03"
	two, minusTwo := "+\x00\x00\x00\x00\x00\x00\x00\x02", "-\xff\xff\xff\xff\xff\xff\xff\xfe"
	one, three, six := "+\x00\x00\x00\x00\x00\x00\x00\x01", "+\x00\x00\x00\x00\x00\x00\x00\x03", "+\x00\x00\x00\x00\x00\x00\x00\x06"
	tok := newTokenizer(t, nil) // one cache: its answers must not mix pages
	for page, want := range map[int][]radix.TokenHash{
		0: {plain[0], fold(1, head+"one"+two), fold(2, head+"one"+minusTwo+head+"snd"+three), plain[3], fold(4, head+"two"+one)},
		8: {fold(0, head+"one"+six), plain[1], fold(2, head+"one"+minusTwo+head+"snd"+three), plain[3], fold(4, head+"two"+one)},
	} {
		q := textQuery(e, "x")
		q.PageTokens = page
		k := tok.Keys(context.Background(), q)
		if k.Tokens != 21 || !slices.Equal(k.Hashes, want) {
			t.Errorf("page %d: %x, want %x", page, k.Hashes, want)
		}
	}
}

func TestRenderMissingFallsBackToTokenizeAndRemembers(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tokenize" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"tokens":[1,2,3,4]}`)
	})
	tok := newTokenizer(t, nil)
	for i, text := range []string{"a", "b"} {
		if k := tok.Keys(context.Background(), textQuery(e, text)); k.Scheme != Engine || len(k.Keys) != 1 {
			t.Fatalf("%d: %+v", i, k)
		}
	}
	if n := e.asked.Load(); n != 3 {
		t.Fatalf("%d questions, want render, tokenize, tokenize", n)
	}
}

func TestI1EveryFailureFallsBackToText(t *testing.T) {
	long := strings.Repeat("x", 2*ChunkBytes)
	block := make(chan struct{})
	defer close(block)
	for _, c := range []struct {
		name   string
		want   Reason
		handle http.HandlerFunc
	}{
		{"missing", Unsupported, http.NotFound},
		{"refused", Rejected, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }},
		{"broken", Failed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }},
		{"busy", Failed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }},
		{"html", Failed, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }},
		{"cut", Failed, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"stalled", Timeout, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok := newTokenizer(t, func(cfg *Config) {
				if c.name == "stalled" {
					cfg.Deadline = 20 * time.Millisecond
				}
			})
			k := tok.Keys(context.Background(), textQuery(newEngine(t, c.handle), long))
			if k.Scheme != Text || k.Reason != c.want || len(k.Keys) != 2 || k.Grid != TokensPerChunk || k.Tokens != 256 {
				t.Fatalf("%+v", k)
			}
		})
	}
}

func TestWithoutEngine(t *testing.T) {
	tok := newTokenizer(t, nil)
	if k := tok.Keys(context.Background(), textQuery(nil, "x")); k.Reason != NoEngine || k.Scheme != Text {
		t.Fatalf("%+v", k)
	}
	if k := tok.Keys(context.Background(), &Query{}); k.Scheme != None || k.Grid != 4 {
		t.Fatalf("%+v", k)
	}
	e := newEngine(t, answerIDs)
	plain := newTokenizer(t, func(cfg *Config) { cfg.Mode = "text" })
	if k := plain.Keys(context.Background(), textQuery(e, "x")); k.Reason != Configured || e.asked.Load() != 0 {
		t.Fatalf("%+v", k)
	}
}

func TestReplicasThatFailAreLeftAloneAndProbedAgain(t *testing.T) {
	var status atomic.Int64
	status.Store(500)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if s := status.Load(); s != 200 {
			w.WriteHeader(int(s))
			return
		}
		answerIDs(w, r)
	})
	var now atomic.Int64
	tok := newTokenizer(t, func(cfg *Config) { cfg.Now = func() time.Time { return time.Unix(now.Load(), 0) } })
	ask := func(text string) Reason { return tok.Keys(context.Background(), textQuery(e, text)).Reason }
	for i, want := range []Reason{Failed, Failed, Failed, Cooling} {
		if got := ask("a"); got != want {
			t.Fatalf("%d: %s, want %s", i, got, want)
		}
	}
	now.Add(3)
	status.Store(404)
	if got := ask("a"); got != Unsupported {
		t.Fatal(got)
	}
	if got, n := ask("b"), e.asked.Load(); got != Unsupported || n != 8 { // both endpoints, four times
		t.Fatalf("%s after %d questions", got, n)
	}
	now.Add(61)
	status.Store(200)
	if got := ask("a"); got != Asked {
		t.Fatal(got)
	}
	if got := ask("b"); got != Asked {
		t.Fatal(got)
	}
}

// deaf answers when it likes, whatever its request's context says.
type deaf chan struct{}

func (d deaf) RoundTrip(*http.Request) (*http.Response, error) {
	<-d
	return nil, io.ErrUnexpectedEOF
}

func TestI1TheDeadlineHoldsAgainstADeafTransport(t *testing.T) {
	release := make(deaf)
	tok := newTokenizer(t, func(c *Config) { c.Transport, c.Deadline = release, time.Millisecond })
	q := textQuery(nil, "x")
	q.Engines = []Oracle{{URL: "http://127.0.0.1:1", Engine: "vllm"}}
	if k := tok.Keys(context.Background(), q); k.Reason != Timeout {
		t.Fatalf("%+v", k)
	}
	close(release)
}

func TestAQuestionEndsAtTheBoundForLateAnswers(t *testing.T) {
	ended := make(chan struct{})
	e := newEngine(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(ended)
	})
	tok := newTokenizer(t, func(c *Config) { c.Deadline, c.Late = time.Second, 2*time.Second })
	tok.Keys(context.Background(), textQuery(e, "x"))
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the engine is still being asked")
	}
}

func TestI5AnswersAreReadUpToABound(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"token_ids":[1,2,3,4]}`)
		blank := bytes.Repeat([]byte(" "), 1<<20)
		for range maxAnswerBytes/len(blank) + 1 {
			if _, err := w.Write(blank); err != nil {
				return
			}
		}
	})
	tok := newTokenizer(t, func(c *Config) { c.Deadline = 20 * time.Second })
	if k := tok.Keys(context.Background(), textQuery(e, "x")); k.Reason != Failed {
		t.Fatalf("%+v", k)
	}
}

func TestOneProbeAtATime(t *testing.T) {
	a, u := abilities{replicas: make(map[string]*ability)}, &Oracle{URL: "u"}
	now := time.Unix(100, 0)
	for range coolAfter {
		a.failed(u, now)
	}
	if _, refusal := a.ask(u, Chat, now, time.Second); refusal != Cooling {
		t.Fatal(refusal)
	}
	now = now.Add(coolFirst)
	if _, refusal := a.ask(u, Chat, now, time.Second); refusal != "" {
		t.Fatal(refusal)
	}
	if _, refusal := a.ask(u, Chat, now, time.Second); refusal != Cooling {
		t.Fatal("two probes at one time")
	}
	a.answered(u)
	for range 2 {
		if _, refusal := a.ask(u, Chat, now, time.Second); refusal != "" {
			t.Fatal(refusal)
		}
	}
}

// Many questions that fail together are one failure more, not many: after an
// outage of a moment the replica is asked again within a moment.
func TestABurstOfFailuresCoolsOnce(t *testing.T) {
	a, u := abilities{replicas: make(map[string]*ability)}, &Oracle{URL: "u"}
	now := time.Unix(100, 0)
	for range 50 {
		a.failed(u, now)
	}
	if !a.resting(u, Chat, now) || a.resting(&Oracle{URL: "v"}, Chat, now) {
		t.Error("the wrong replica rests")
	}
	now = now.Add(coolFirst)
	if _, refusal := a.ask(u, Chat, now, time.Second); refusal != "" || !a.resting(u, Chat, now) {
		t.Fatalf("no probe after the first quiet time: %s", refusal)
	}
	a.failed(u, now) // the probe, refused at once
	for _, quiet := range []time.Duration{2 * coolFirst, coolMost, coolMost} {
		if _, refusal := a.ask(u, Chat, now.Add(quiet-1), time.Second); refusal != Cooling {
			t.Fatalf("asked before %v passed", quiet)
		}
		now = now.Add(quiet)
		if _, refusal := a.ask(u, Chat, now, time.Second); refusal != "" {
			t.Fatalf("not probed after %v: %s", quiet, refusal)
		}
		a.failed(u, now)
	}
}

func TestI4EqualQuestionsAreAskedOnce(t *testing.T) {
	start := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		<-start
		answerIDs(w, r)
	})
	tok := newTokenizer(t, nil)
	const callers = 8
	results := make(chan Keys, callers)
	for range callers {
		go func() { results <- tok.Keys(context.Background(), textQuery(e, "same text")) }()
	}
	<-e.paths
	close(start)
	for range callers {
		if k := <-results; k.Scheme != Engine {
			t.Errorf("%+v", k)
		}
	}
	if n := e.asked.Load(); n != 1 {
		t.Fatalf("asked %d times", n)
	}
}

func TestCallerThatLeavesDoesNotEndTheQuestion(t *testing.T) {
	start := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		<-start
		answerIDs(w, r)
	})
	tok := newTokenizer(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan Keys, 1)
	go func() { first <- tok.Keys(ctx, textQuery(e, "text")) }()
	<-e.paths
	cancel()
	if k := <-first; k.Scheme != Text || k.Reason != Timeout {
		t.Fatalf("%+v", k)
	}
	close(start)
	if k := tok.Keys(context.Background(), textQuery(e, "text")); k.Scheme != Engine {
		t.Fatalf("%+v", k)
	}
	if n := e.asked.Load(); n != 1 {
		t.Fatalf("asked %d times", n)
	}
}

func TestI2SchemesAndNamespacesNeverMeet(t *testing.T) {
	roots := []radix.Key{
		TokenRoot(hasher, "", ""), TokenRoot(hasher, "a", ""), TokenRoot(hasher, "", "a"),
		TextRoot(hasher, "", "", ""), TextRoot(hasher, "a", "", ""), TextRoot(hasher, "", "a", ""), TextRoot(hasher, "", "", "a"),
	}
	slices.Sort(roots)
	if len(slices.Compact(roots)) != 7 {
		t.Fatal("two roots are equal")
	}
}

func TestI3LongerPromptsExtendTheKeys(t *testing.T) {
	tok := newTokenizer(t, func(cfg *Config) { cfg.Mode = "text" })
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "text"), rapid.IntRange(0, 200).Draw(t, "times"))
		more := text + rapid.String().Draw(t, "more")
		short := tok.Keys(context.Background(), textQuery(nil, text))
		long := tok.Keys(context.Background(), textQuery(nil, more))
		if len(long.Keys) < len(short.Keys) || !slices.Equal(long.Keys[:len(short.Keys)], short.Keys) {
			t.Fatalf("%d keys do not begin with %d", len(long.Keys), len(short.Keys))
		}
	})
}

func TestI5CacheStaysWithinItsBytes(t *testing.T) {
	c := newCache(2*(entryBytes+80) + 100)
	for i := range byte(20) {
		c.put(identity{i}, answer{hashes: make([]radix.TokenHash, 10)})
	}
	if n, bytes := c.size(); n != 2 || bytes != 2*(entryBytes+80) {
		t.Fatalf("%d entries, %d bytes", n, bytes)
	}
	if _, ok := c.get(identity{18}); !ok {
		t.Fatal("a recent entry is gone")
	}
	c.put(identity{30}, answer{hashes: make([]radix.TokenHash, 10)})
	if _, ok := c.get(identity{19}); ok {
		t.Fatal("the entry used longest ago must go first")
	}
	c.put(identity{40}, answer{hashes: make([]radix.TokenHash, 1000)})
	if _, ok := c.get(identity{40}); ok {
		t.Fatal("an answer over the limit was kept")
	}
}

func TestMaxBlocks(t *testing.T) {
	tok := newTokenizer(t, func(cfg *Config) { cfg.MaxBlocks = 2; cfg.Mode = "text" })
	if k := tok.Keys(context.Background(), &Query{Tokens: make([]uint32, 100)}); len(k.Keys) != 2 || k.Tokens != 100 {
		t.Fatalf("%d keys", len(k.Keys))
	}
	if k := tok.Keys(context.Background(), textQuery(nil, strings.Repeat("x", 10*ChunkBytes))); len(k.Keys) != 2 {
		t.Fatalf("%d keys", len(k.Keys))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"token_ids":[1,2,3]}`))
	f.Add([]byte(`[{"token_ids":[1, 2]}]`))
	f.Add([]byte(`{"tokens":[],"features":{"mm_hashes":{"a":["h"]},"mm_placeholders":{"a":[{"offset":0,"length":0}]}}}`))
	tok, err := New(Config{Hasher: hasher, Grid: 2, Mode: "auto"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decode(raw)
		if err != nil {
			return
		}
		if len(r.tokens) > len(raw) {
			t.Fatalf("%d tokens of %d bytes", len(r.tokens), len(raw))
		}
		for _, page := range []int{0, 2, 6} {
			if a := tok.digest(r, page); len(a.hashes) != len(r.tokens)/2 {
				t.Fatalf("%d hashes of %d tokens", len(a.hashes), len(r.tokens))
			}
		}
	})
}

func FuzzParseIDs(f *testing.F) {
	for _, s := range []string{`[1,2]`, `[]`, `[ 16777215 ]`, `[16777216]`, `[1 2]`, `[,]`, `[-1]`, `[1.0]`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // parseIDs is given checked JSON only
		}
		raw = bytes.TrimSpace(raw)
		got, err := parseIDs(raw)
		var want []uint32
		twin := json.Unmarshal(raw, &want)
		if slices.ContainsFunc(want, func(id uint32) bool { return id > maxTokenID }) {
			twin = errIDs
		}
		if (err == nil) != (twin == nil && len(raw) > 0 && raw[0] == '[' && !bytes.Contains(raw, []byte("null"))) || err == nil && !slices.Equal(got, want) {
			t.Fatalf("%s: %v %v, encoding/json %v %v", raw, got, err, want, twin)
		}
	})
}

func BenchmarkKeys(b *testing.B) {
	tok, err := New(Config{Hasher: hasher, Grid: 16, Mode: "text"})
	if err != nil {
		b.Fatal(err)
	}
	defer tok.Close()
	text := strings.Repeat("some words of a prompt ", 700)
	for name, q := range map[string]*Query{"ids4096": {Tokens: make([]uint32, 4096)}, "text16KB": textQuery(nil, text)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tok.Keys(context.Background(), q)
			}
		})
	}
}

// TestTextKeysAreGolden: peers of two releases exchange text keys as
// predictions, so the keys of a text must not drift.
func TestTextKeysAreGolden(t *testing.T) {
	text := []byte(strings.Repeat("0123456789abcdef", 64) + "tail")
	k := textKeys(hasher, TextRoot(hasher, "org/model", "adapter", "salt"), text, 10)
	if want := []radix.Key{0xc934790d8bd5e18f, 0xa29b5cd65fabf004}; !slices.Equal(k.Keys, want) || k.Tokens != 257 {
		t.Fatalf("%#x, %d tokens", k.Keys, k.Tokens)
	}
}
