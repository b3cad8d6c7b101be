package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/radix"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/token"
)

// creditor is an engine without events that answers every prompt, but for the
// paths it refuses. It reports no cached tokens: what is believed cached is what
// was sent.
func creditor(t *testing.T, refused ...string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, path := range refused {
			if r.URL.Path == path {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"error":{"message":"Scale-out endpoints are disabled","code":403}}`)
				return
			}
		}
		switch r.URL.Path {
		case "/health":
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case "/tokenize":
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, `{"choices":[1]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// creditPeer is a peer before one server, whose spec may be changed.
func creditPeer(t *testing.T, url string, change func(*fleet.Spec)) *Peer {
	t.Helper()
	p := runningPeer(t, Source{}, func(c *Config) {
		spec := fleet.Spec{Name: "r", URL: url, Engine: "vllm", Model: "m"}
		change(&spec)
		c.Replicas = []fleet.Spec{spec}
	})
	wait(t, "the replica's models are known", func() bool { return len(p.fleet.ModelNames()) == 1 })
	return p
}

// numbers is a prompt of n token ids, in JSON.
func numbers(n, first int) string {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	raw, _ := json.Marshal(out)
	return string(raw)
}

// credited sends a body and tells what was believed cached of it.
func credited(t *testing.T, p *Peer, path, body string) (status, matched int) {
	t.Helper()
	res, err := http.Post("http://"+p.front.public.Addr().String()+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	if matched, err = strconv.Atoi(res.Header.Get("X-Banyan-Matched-Tokens")); err != nil {
		t.Fatalf("%v in the answer %d %s", err, res.StatusCode, raw)
	}
	return res.StatusCode, matched
}

// vLLM shortens a prompt of token ids as well, and what it has left is what it
// caches.
func TestShortenedTokenIdsAreKeyedAsTheyAreComputed(t *testing.T) {
	p := creditPeer(t, creditor(t).URL, func(*fleet.Spec) {})
	ids := numbers(400, 1)
	for _, c := range []struct {
		name, body, longer string
		want               int
	}{
		{"the last ones", `,"truncate_prompt_tokens":150`, numbers(150, 251), 144},
		{"the first ones", `,"truncate_prompt_tokens":150,"truncation_side":"right"`, numbers(150, 1), 144},
	} {
		salt := `"cache_salt":"` + c.name + `"`
		body := `{"model":"m",` + salt + `,"prompt":` + ids + c.body + `}`
		credited(t, p, "/v1/completions", body)
		if _, matched := credited(t, p, "/v1/completions", body); matched != c.want {
			t.Errorf("%s: %d tokens believed cached of a prompt of 150, want %d", c.name, matched, c.want)
		}
		plain := `{"model":"m",` + salt + `,"prompt":` + c.longer + `}`
		if _, matched := credited(t, p, "/v1/completions", plain); matched != c.want {
			t.Errorf("%s: %d tokens believed cached of what was left of it, want %d", c.name, matched, c.want)
		}
	}
}

// What an engine refuses it has not computed.
func TestARefusedPromptIsNotBelievedCached(t *testing.T) {
	p := creditPeer(t, creditor(t, "/inference/v1/generate").URL, func(*fleet.Spec) {})
	known, ids := numbers(160, 1), numbers(320, 1)
	credited(t, p, "/v1/completions", `{"model":"m","prompt":`+known+`}`)
	for range 3 {
		status, matched := credited(t, p, "/inference/v1/generate", `{"model":"m","token_ids":`+ids+`,"sampling_params":{"max_tokens":1}}`)
		if status != http.StatusForbidden || matched != 160 {
			t.Errorf("status %d, %d tokens believed cached, want 403 and the 160 of another request", status, matched)
		}
	}
	time.Sleep(2 * time.Millisecond) // what is sent within one millisecond is taken back together
	credited(t, p, "/v1/completions", `{"model":"m","prompt":`+ids+`}`)
	if _, matched := credited(t, p, "/inference/v1/generate", `{"model":"m","token_ids":`+ids+`}`); matched != 319 {
		t.Errorf("%d tokens believed cached of a prompt that was computed, want 319", matched)
	}
}

// vLLM heeds the rank that a request names at some endpoints only. At the others
// it picks the rank itself: only what every rank has can be counted on.
func TestNoRankIsCreditedWhereTheEnginePicksIt(t *testing.T) {
	p := creditPeer(t, creditor(t).URL, func(s *fleet.Spec) { s.Ranks = 2 })
	text := strings.Repeat("many words, told again and again; ", 60)
	for _, c := range []struct {
		name, path, body string
		pinned           bool
	}{
		{"chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":%q}]}`, true},
		{"completions", "/v1/completions", `{"model":"m","prompt":%q}`, true},
		{"messages", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, true},
		{"responses", "/v1/responses", `{"model":"m","input":%q}`, false},
		{"beams", "/v1/completions", `{"model":"m","prompt":%q,"use_beam_search":true,"n":2}`, false},
		{"embeddings", "/v1/embeddings", `{"model":"m","input":%q}`, false},
	} {
		body := fmt.Sprintf(c.body, c.name+text)
		most := 0
		for range 3 {
			_, matched := credited(t, p, c.path, body)
			most = max(most, matched)
		}
		if pinned := most > 0; pinned != c.pinned {
			t.Errorf("%s: %d tokens believed cached", c.name, most)
		}
	}
	// What both ranks were sent is found at either.
	ids := numbers(320, 1)
	for name, n := range map[string]int{"r": 320, "r/1": 160} {
		var keys token.Keys
		for _, r := range p.fleet.List() {
			if r.Name() == name {
				keys = p.tokens.Keys(t.Context(), &token.Query{Tokens: tokensOf(n)})
				p.index.Predict(r.Stream, chainOf(&keys), p.clock.ms(time.Now()))
			}
		}
	}
	if _, matched := credited(t, p, "/v1/completions", `{"model":"m","prompt":`+ids+`,"use_beam_search":true,"n":2}`); matched != 160 {
		t.Errorf("%d tokens believed cached of which one rank has 320, the other 160", matched)
	}
}

func tokensOf(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i + 1)
	}
	return out
}

// Only its holder knows the prompt of a response that goes on. What is known is
// how it began and how long it was.
func TestAContinuedResponseIsPricedByWhatItsHolderHas(t *testing.T) {
	length := 400
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case "/v1/responses":
			var body struct {
				ID string `json:"request_id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&body)
			fmt.Fprintf(w, `{"id":%q,"object":"response","usage":{"input_tokens":%d,"output_tokens":16}}`, body.ID, length)
		}
	}))
	t.Cleanup(engine.Close)
	p := creditPeer(t, engine.URL, func(*fleet.Spec) {})
	ask := func(body string) (matched int, id string) {
		t.Helper()
		res, err := http.Post("http://"+p.front.public.Addr().String()+"/v1/responses", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, _ := io.ReadAll(res.Body)
		if matched, err = strconv.Atoi(res.Header.Get("X-Banyan-Matched-Tokens")); err != nil {
			t.Fatalf("%v: %d %s", err, res.StatusCode, raw)
		}
		return matched, idOf(t, string(raw))
	}
	_, first := ask(`{"model":"m","input":"` + strings.Repeat("many words; ", 130) + `"}`)
	length = 500
	matched, second := ask(`{"model":"m","input":"and then?","previous_response_id":"` + first + `"}`)
	if matched != 415 {
		t.Errorf("%d tokens believed cached of the 416 before, whose last one was not computed", matched)
	}
	if matched, _ = ask(`{"model":"m","input":"and then?","previous_response_id":"` + second + `"}`); matched != 515 {
		t.Errorf("%d tokens believed cached of the 516 before", matched)
	}
}

func TestStoredPromptsAreBounded(t *testing.T) {
	var s storedPrompts
	for i := range 3 * maxStoredPrompts {
		s.put(fmt.Sprint(i), &storedPrompt{keys: token.Keys{Keys: make([]radix.Key, 1000)}})
		if len(s.byID) > maxStoredPrompts || s.keys > maxStoredKeys || len(s.ids) != len(s.byID) || s.keys != 1000*len(s.ids) {
			t.Fatalf("%d prompts with %d keys", len(s.byID), s.keys)
		}
	}
	if s.get(fmt.Sprint(3*maxStoredPrompts-1)) == nil || s.get("0") != nil {
		t.Error("the oldest go first")
	}
}
