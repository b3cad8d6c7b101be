package disagg

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/banyan-llm/banyan/router/openai"
)

// pair is a prefill and a decode server, and a book of what became of tries.
type pair struct {
	t    *testing.T
	legs *Legs
	try  Try

	mu       sync.Mutex // guards below
	calls    []call
	ends     []Outcome
	usage    openai.Usage
	fellBack int
	atLead   bool // the answer or the failure is the prefill server's
	broke    bool
}

// call is what a server was sent.
type call struct {
	role   string
	header http.Header
	raw    string
	body   map[string]any
}

func newPair(t *testing.T, engine string, prefill, decode http.HandlerFunc) *pair {
	p := &pair{t: t}
	transport := &http.Transport{}
	p.legs = &Legs{Transport: transport, Timeout: func() time.Duration { return time.Minute }, Log: hclog.NewNullLogger()}
	side := func(role string, h http.HandlerFunc) Server {
		server := httptest.NewServer(p.note(role, h))
		t.Cleanup(server.Close)
		return Server{Name: role, URL: server.URL, Engine: engine, Header: http.Header{"Authorization": {"Bearer key-of-" + role}}}
	}
	p.try = Try{Prefill: side("prefill", prefill), Decode: side("decode", decode), Book: p}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(p.legs.Stop)
	return p
}

// note remembers what a server was sent.
func (p *pair) note(role string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		c := call{role: role, header: r.Header.Clone(), raw: string(raw)}
		_ = json.Unmarshal(raw, &c.body)
		p.mu.Lock()
		p.calls = append(p.calls, c)
		p.mu.Unlock()
		h(w, r)
	}
}

func (p *pair) Ended(how Outcome, usage openai.Usage, _ time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends, p.usage = append(p.ends, how), usage
}

func (p *pair) FellBack(error, time.Time) { p.fellBack++ }
func (p *pair) AtPrefill()                { p.atLead = true }
func (p *pair) PrefillBroke()             { p.broke = true }

// sent is what a server of a role was sent, nil if nothing.
func (p *pair) sent(role string) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.calls {
		if p.calls[i].role == role {
			return &p.calls[i]
		}
	}
	return nil
}

// send makes the try as a proxy would: to the decode server, with its header.
func (p *pair) send(ctx context.Context, body string) (*http.Response, error) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.try.Decode.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Data-Parallel-Rank": {"7"}, "Authorization": {"Bearer key-of-decode"}, "X-Request-Id": {"a"}}
	p.try.Request, p.try.Body = req, parse(p.t, openai.Chat, body)
	return p.legs.Send(&p.try)
}

// ask sends and reads the answer. Once it is read and the prefill leg is over,
// the end must have been told once.
func (p *pair) ask(body string, want Outcome) (status int, answer string, err error) {
	p.t.Helper()
	res, err := p.send(p.t.Context(), body)
	if err == nil {
		var raw []byte
		raw, err = io.ReadAll(res.Body)
		status, answer = res.StatusCode, string(raw)
		res.Body.Close()
	}
	p.legs.running.wg.Wait()
	if !slices.Equal(p.ends, []Outcome{want}) {
		p.t.Errorf("I4: told %q, want %s once", p.ends, want)
	}
	return status, answer, err
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// begins answers with a header, then does more.
func begins(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		then(w, r)
	}
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func dies(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const (
	plainAsk      = `{"model":"m","messages":[{"role":"user","content":"hello there"}],"max_tokens":7}`
	streamAsk     = `{"model":"m","messages":[{"role":"user","content":"hello there"}],"stream":true}`
	transferTo    = `{"do_remote_prefill":true,"remote_block_ids":[7,8],"remote_host":"h","remote_port":5}`
	prefillSays   = `{"choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":40,"completion_tokens":1},"kv_transfer_params":` + transferTo + `}`
	decodeSays    = `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":40,"completion_tokens":30}}`
	contextAnswer = `{"choices":[{"finish_reason":"length","disaggregated_params":{"request_type":"context_only","ctx_request_id":3}}],` +
		`"prompt_token_ids":[1,2],"usage":{"prompt_tokens":40,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":16}}}`
	endedAnswer = `{"choices":[{"message":{"content":"No."},"finish_reason":"stop"}],"usage":{"prompt_tokens":40,"completion_tokens":1}}`
)

// TestI5NothingOfOneReplicaReachesTheOther: neither keys nor ranks.
func TestI5NothingOfOneReplicaReachesTheOther(t *testing.T) {
	for _, engine := range []string{"vllm", "sglang"} {
		p := newPair(t, engine, says(200, prefillSays), says(200, decodeSays))
		if _, answer, err := p.ask(plainAsk, Answered); err != nil || answer != decodeSays {
			t.Fatal(answer, err)
		}
		for role, rank := range map[string]string{"prefill": "", "decode": "7"} {
			h := p.sent(role).header
			if h.Get("Authorization") != "Bearer key-of-"+role || h.Get("X-Data-Parallel-Rank") != rank || h.Get("X-Request-Id") != "a" {
				t.Errorf("I5: %s: the %s replica was sent %v", engine, role, h)
			}
		}
		p = newPair(t, engine, says(200, prefillSays), says(200, decodeSays))
		p.try.Prefill.Header = nil
		if _, _, err := p.ask(plainAsk, Answered); err != nil {
			t.Fatal(err)
		}
		if got := p.sent("prefill").header.Get("Authorization"); got != "" {
			t.Errorf("I5: %s: a replica without credentials was sent %q", engine, got)
		}
	}
}

// TestI7BothLegsEndWithTheClient: whichever it is in.
func TestI7BothLegsEndWithTheClient(t *testing.T) {
	for name, c := range map[string]struct {
		engine  string
		prefill http.HandlerFunc
		end     Outcome
		legs    int
	}{
		"while the prompt is computed": {"vllm", hangs, Left, 1},
		"after that":                   {"vllm", says(200, prefillSays), Answered, 2},
		"of legs at once":              {"sglang", hangs, Left, 2},
	} {
		reached, ended := make(chan struct{}, 2), make(chan struct{}, 2)
		told := func(h http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				reached <- struct{}{}
				h(w, r)
				ended <- struct{}{}
			}
		}
		p := newPair(t, c.engine, told(c.prefill), told(hangs))
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			for range c.legs {
				<-reached
			}
			leave()
		}()
		if res, err := p.send(ctx, plainAsk); err == nil {
			res.Body.Close()
			t.Errorf("%s: answered", name)
		}
		for range c.legs {
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatalf("I7: %s: a leg ran on", name)
			}
		}
		p.legs.running.wg.Wait()
		if !slices.Equal(p.ends, []Outcome{c.end}) || p.fellBack != 0 {
			t.Errorf("I4, I7: %s: told %q, fell back %d times", name, p.ends, p.fellBack)
		}
	}
}

// TestI8StopWaitsForLegsThatOutliveTheirAnswers: and ends them.
func TestI8StopWaitsForLegsThatOutliveTheirAnswers(t *testing.T) {
	p := newPair(t, "sglang", begins(hangs), says(200, decodeSays))
	res, err := p.send(t.Context(), plainAsk)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	p.legs.Stop()
	if !slices.Equal(p.ends, []Outcome{Left}) || len(p.legs.running.cancel) != 0 {
		t.Errorf("I8: told %q, %d run", p.ends, len(p.legs.running.cancel))
	}
}

// TestSpansOfLegs: each leg has one, which ends with its answer.
func TestSpansOfLegs(t *testing.T) {
	for _, engine := range []string{"vllm", "sglang"} {
		p := newPair(t, engine, says(200, prefillSays), says(200, decodeSays))
		open := map[string]bool{}
		var mu sync.Mutex
		p.legs.Trace = func(req *http.Request, leg, replica string) (*http.Request, func(int, error)) {
			mu.Lock()
			defer mu.Unlock()
			open[leg+" "+replica] = true
			return req, func(status int, err error) {
				mu.Lock()
				defer mu.Unlock()
				open[leg+" "+replica] = status != 200 || err != nil
			}
		}
		if _, _, err := p.ask(plainAsk, Answered); err != nil {
			t.Fatal(err)
		}
		if prefill, ok := open["prefill leg prefill"]; prefill || !ok {
			t.Errorf("%s: %v", engine, open)
		}
		if decode, ok := open["decode leg decode"]; decode || !ok {
			t.Errorf("%s: %v", engine, open)
		}
	}
}
