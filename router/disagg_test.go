package router

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/disagg"
	"github.com/banyan-llm/banyan/router/fleet"
	"github.com/banyan-llm/banyan/router/metrics"
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/proxy"
)

// duo is one prefill and one decode replica behind a peer that never runs: no
// probes, no mesh, no events.
type duo struct {
	t     *testing.T
	peer  *Peer
	api   *proxy.Handler
	front *httptest.Server

	mu    sync.Mutex
	calls []legCall
}

type legCall struct {
	role   string
	header http.Header
	raw    string
	body   map[string]any
}

func newDuo(t *testing.T, engine string, prefill, decode http.HandlerFunc, edit func(*Config)) *duo {
	t.Helper()
	d := &duo{t: t}
	cfg := DefaultConfig()
	cfg.HTTP.Listen, cfg.Admin.Listen, cfg.Mesh.Bind = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Mesh.Insecure, cfg.Tokenizer = true, "text"
	cfg.Routing.Disagg.Mode, cfg.Routing.Disagg.Tokens = policy.DisaggThreshold, 1
	for role, h := range map[string]http.HandlerFunc{"prefill": prefill, "decode": decode} {
		server := httptest.NewServer(d.note(role, h))
		t.Cleanup(server.Close)
		cfg.Replicas = append(cfg.Replicas, fleet.Spec{
			Name: role, URL: server.URL, Engine: engine, Role: role, Model: "m", Credentials: "key-of-" + role,
		})
	}
	if edit != nil {
		edit(&cfg)
	}
	p, err := New(cfg, Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	d.peer = p
	api, err := proxy.New(p.proxyConfig())
	if err != nil {
		t.Fatal(err)
	}
	d.api, d.front = api, httptest.NewServer(api)
	t.Cleanup(func() {
		d.front.Close()
		d.idle()
		p.path.pairs.transport.CloseIdleConnections()
		p.mesh.stop()
		p.close()
	})
	return d
}

// note remembers what a leg was sent.
func (d *duo) note(role string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		call := legCall{role: role, header: r.Header.Clone(), raw: string(raw)}
		_ = json.Unmarshal(raw, &call.body)
		d.mu.Lock()
		d.calls = append(d.calls, call)
		d.mu.Unlock()
		h(w, r)
	}
}

func (d *duo) seen() []legCall {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]legCall(nil), d.calls...)
}

// idle expects that nothing stays counted in (R1), and waits until every
// request that was answered is over here too: learned from and counted.
func (d *duo) idle() {
	d.t.Helper()
	eventually(d.t, "no request is in flight", func() bool { return d.api.Stats().InFlight == 0 })
	for _, r := range d.peer.fleet.List() {
		for end := time.Now().Add(20 * time.Second); d.peer.loads.InFlight(r.Stream) != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				d.t.Errorf("R1: %d requests stay at %s", d.peer.loads.InFlight(r.Stream), r.Name())
				break
			}
		}
	}
}

func (d *duo) ask(body string) (status int, replica, answer string) {
	d.t.Helper()
	res, err := http.Post(d.front.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	return res.StatusCode, res.Header.Get("X-Banyan-Replica"), string(raw)
}

// askAndLeave hangs up once so many legs were reached.
func (d *duo) askAndLeave(legs int, reached <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, d.front.URL+"/v1/chat/completions", strings.NewReader(plainAsk))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	for range legs {
		<-reached
	}
	cancel()
	<-done
}

func (d *duo) legs(outcome disagg.Outcome) int {
	return int(metrics.Count(d.peer.metrics.Legs.WithLabelValues(string(outcome))))
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	plainAsk   = `{"model":"m","messages":[{"role":"user","content":"hello there"}],"max_tokens":7}`
	streamAsk  = `{"model":"m","messages":[{"role":"user","content":"hello there"}],"stream":true}`
	transferTo = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[7,8],"remote_engine_id":"e","remote_host":"h","remote_port":5}`
	leadAnswer = `{"choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":40,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":16}},` +
		`"kv_transfer_params":` + transferTo + `}`
	decodeAnswer = `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":40,"completion_tokens":30,"prompt_tokens_details":{"cached_tokens":40}}}`
)

func TestNIXLLegs(t *testing.T) {
	for _, ask := range []string{plainAsk, streamAsk} {
		d := newDuo(t, "vllm", says(200, leadAnswer), says(200, decodeAnswer), nil)
		status, replica, answer := d.ask(ask)
		if status != 200 || replica != "decode" || answer != decodeAnswer {
			t.Fatalf("%d %s %s", status, replica, answer)
		}
		calls := d.seen()
		if len(calls) != 2 || calls[0].role != "prefill" || calls[1].role != "decode" {
			t.Fatalf("%+v", calls)
		}
		p, q := calls[0], calls[1]
		if p.body["stream"] != false || p.body["max_tokens"] != 1.0 || p.body["stream_options"] != nil {
			t.Errorf("prefill got %s", p.raw)
		}
		if !strings.Contains(q.raw, `"kv_transfer_params":`+transferTo) || (ask == plainAsk) != (q.body["max_tokens"] == 7.0) ||
			(ask == streamAsk) != (q.body["stream"] == true && q.body["stream_options"] != nil) {
			t.Errorf("decode got %s", q.raw)
		}
		if id := p.header.Get("X-Request-Id"); id == "" || id != q.header.Get("X-Request-Id") {
			t.Errorf("ids %q and %q", id, q.header.Get("X-Request-Id"))
		}
		for _, c := range calls {
			if got := c.header.Get("Authorization"); got != "Bearer key-of-"+c.role {
				t.Errorf("%s was sent %q", c.role, got)
			}
		}
		d.idle()
		if d.legs(disagg.Answered) != 1 || metrics.Count(d.peer.metrics.Cached) != 16 {
			t.Errorf("answered %d, cached %d: the prefill answer counts", d.legs(disagg.Answered), metrics.Count(d.peer.metrics.Cached))
		}
	}
}

func TestAFailedPrefillFallsBackToTheDecodeReplica(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		prefill http.HandlerFunc
		outcome disagg.Outcome
	}{
		"500":      {says(500, `{}`), disagg.Failed},
		"dies":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, disagg.Failed},
		"too slow": {hang, disagg.Timeout},
	} {
		d := newDuo(t, "vllm", c.prefill, says(200, decodeAnswer), func(cfg *Config) {
			if c.outcome == disagg.Timeout { // the others need no short wait, and must not meet one
				cfg.Routing.Disagg.Timeout = 200 * time.Millisecond
			}
		})
		status, replica, answer := d.ask(plainAsk)
		if status != 200 || replica != "decode" || answer != decodeAnswer {
			t.Fatalf("%s: %d %s %s", name, status, replica, answer)
		}
		if calls := d.seen(); len(calls) != 2 || calls[1].raw != plainAsk {
			t.Errorf("%s: %+v", name, calls)
		}
		d.idle()
		if d.legs(c.outcome) != 1 {
			t.Errorf("%s: not counted as %s", name, c.outcome)
		}
	}
}

func TestARefusedPrefillIsTheClients(t *testing.T) {
	const refusal = `{"error":{"message":"too long"}}`
	d := newDuo(t, "vllm", says(400, refusal), says(200, decodeAnswer), nil)
	if status, replica, answer := d.ask(plainAsk); status != 400 || replica != "prefill" || answer != refusal || len(d.seen()) != 1 {
		t.Errorf("%d %s %s %+v", status, replica, answer, d.seen())
	}
	d.idle()
}

func TestUnsuitableOrShortRequestsHaveOneLeg(t *testing.T) {
	d := newDuo(t, "vllm", says(200, leadAnswer), says(200, decodeAnswer), nil)
	d.ask(`{"model":"m","messages":[{"role":"user","content":"hello"}],"n":2}`)
	if calls := d.seen(); len(calls) != 1 || calls[0].role != "decode" {
		t.Errorf("%+v", calls)
	}
	d = newDuo(t, "vllm", says(200, leadAnswer), says(200, decodeAnswer), func(cfg *Config) { cfg.Routing.Disagg.Tokens = 5000 })
	d.ask(plainAsk)
	if calls := d.seen(); len(calls) != 1 || calls[0].role != "decode" {
		t.Errorf("%+v", calls)
	}
	if got := metrics.Count(d.peer.metrics.Splits.WithLabelValues(string(policy.SplitShort))); got != 1 {
		t.Errorf("short was counted %d times", got)
	}
}

func TestAClientThatLeavesCancelsTheLegItIsIn(t *testing.T) {
	for _, role := range []string{"prefill", "decode"} {
		reached, ended := make(chan struct{}), make(chan struct{})
		hang := func(_ http.ResponseWriter, r *http.Request) {
			close(reached)
			<-r.Context().Done()
			close(ended)
		}
		prefill, decode := says(200, leadAnswer), says(200, decodeAnswer)
		if role == "prefill" {
			prefill = hang
		} else {
			decode = hang
		}
		d := newDuo(t, "vllm", prefill, decode, nil)
		d.askAndLeave(1, reached)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("the %s leg ran on", role)
		}
		d.idle()
		want := map[string]int{"prefill": 1, "decode": 2}[role]
		if calls := d.seen(); len(calls) != want {
			t.Errorf("%s: %d legs were sent", role, len(calls))
		}
		for _, r := range d.peer.fleet.List() {
			if !r.Up() {
				t.Errorf("%s is blamed for a client that left", r.Name())
			}
		}
	}
}

func TestStatusAdvisesARatio(t *testing.T) {
	d := newDuo(t, "vllm", says(200, leadAnswer), says(200, decodeAnswer), nil)
	if s := d.peer.report.disaggStatus(); s == nil || s.Advised != nil {
		t.Fatalf("%+v", s)
	}
	for range 25 {
		d.ask(plainAsk)
	}
	d.idle()
	s := d.peer.report.disaggStatus()
	if s.Prefill != 1 || s.Decode != 1 || s.Pairs != 25 || s.Whole != 0 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	if s.Input != 40 || s.Cached != 16 || s.Output != 30 || s.Advised == nil || !(*s.Advised > 0) {
		t.Errorf("%+v", s)
	}
	off := newDuo(t, "vllm", says(200, leadAnswer), says(200, decodeAnswer), func(cfg *Config) { cfg.Routing.Disagg.Mode = policy.DisaggOff })
	if off.peer.report.disaggStatus() != nil {
		t.Error("off, and shown")
	}
}
