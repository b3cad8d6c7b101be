package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
)

// trap is an address that nobody configured.
type trap struct {
	*httptest.Server
	hits atomic.Int64
}

func newTrap(t *testing.T) *trap {
	tr := &trap{}
	tr.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { tr.hits.Add(1) }))
	t.Cleanup(tr.Close)
	return tr
}

func (tr *trap) host() string { return strings.TrimPrefix(tr.URL, "http://") }

// A router connects to what was configured or discovered, never to where an
// engine sends it: redirects of every endpoint it asks, endpoints that a
// /server_info names.
func TestEnginesCannotSendARouterElsewhere(t *testing.T) {
	tr := newTrap(t)
	asked := map[string]*atomic.Int64{}
	redirecting := func(name string, exempt ...string) *httptest.Server {
		n := &atomic.Int64{}
		asked[name] = n
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, path := range exempt {
				if r.URL.Path == path {
					fmt.Fprintf(w, `{"data":[{"id":"m"}],"page_size":16,"kv_events":{"publisher":"zmq","endpoint_host":%q,"endpoint_port_base":%s}}`,
						strings.Split(tr.host(), ":")[0]+".nip", strings.Split(tr.host(), ":")[1])
					return
				}
			}
			n.Add(1)
			w.Header().Set("Location", tr.URL+r.URL.Path)
			w.Header().Set("Refresh", "0; url="+tr.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}))
		t.Cleanup(s.Close)
		return s
	}
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Replicas = []fleet.Spec{
			{Name: "vllm", URL: redirecting("vllm").URL, Engine: "vllm", Model: "m", Credentials: "hush"},
			{Name: "auto", URL: redirecting("auto", "/health", "/v1/models").URL, Model: "m"},
			{Name: "told", URL: redirecting("told", "/health", "/v1/models", "/server_info").URL, Model: "m"},
			{Name: "polled", URL: redirecting("polled", "/health").URL, Engine: "trtllm", Events: fleet.Poll, Model: "m"},
		}
		c.Ingest.Token = "token"
	})
	body := `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	noFollow := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: 20 * time.Second}
	served := map[string]bool{}
	wait(t, "every replica was asked by probes and by clients", func() bool {
		res, err := noFollow.Post("http://"+p.front.public.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Header.Get("Location")+res.Header.Get("Refresh") != "" {
			t.Fatalf("a client is sent to %q", res.Header)
		}
		served[res.Header.Get("X-Banyan-Replica")] = true
		for _, n := range asked {
			if n.Load() < 3 {
				return false
			}
		}
		return len(served) >= 2
	})
	if n := tr.hits.Load(); n != 0 {
		t.Errorf("the router went elsewhere %d times", n)
	}
	for _, r := range p.fleet.List() {
		if strings.Contains(r.Facts().Events, ".nip") {
			t.Errorf("%s: events are read from %s, which only the engine named", r.Name(), r.Facts().Events)
		}
	}

	// Events by HTTP name a replica; they do not make one.
	for _, name := range []string{tr.URL, tr.host(), "http://" + tr.host() + "#0", "nobody"} {
		event, _ := json.Marshal(map[string]any{"replica": name, "epoch_ms": 1, "seq": 0, "ts": 1, "events": []any{}})
		req, _ := http.NewRequest(http.MethodPost, "http://"+p.front.admin.Addr().String()+access.EventsPath, strings.NewReader(string(event)))
		req.Header.Set("Authorization", "Bearer token")
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("events of %s: status %d", name, res.StatusCode)
		}
	}
	if len(p.fleet.List()) != 4 || tr.hits.Load() != 0 {
		t.Error("a sender of events made a replica")
	}
}

// What a client sends never becomes an address: neither the router's next hop
// nor one that the engine is told to connect to.
func TestClientsCannotSendARouterElsewhere(t *testing.T) {
	tr := newTrap(t)
	var got atomic.Pointer[http.Request]
	var gotBody atomic.Pointer[string]
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			raw, _ := io.ReadAll(r.Body)
			text := string(raw)
			got.Store(r)
			gotBody.Store(&text)
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}],"choices":[{}]}`)
	}))
	t.Cleanup(engine.Close)
	p := runningPeer(t, Source{}, func(c *Config) {
		c.Replicas = []fleet.Spec{{Name: "r", URL: engine.URL, Engine: "sglang", Model: "m"}}
		c.Tokenizer = "text"
	})
	wait(t, "the peer is ready", func() bool { ready, _ := p.readiness.ready(); return ready })
	base := "http://" + p.front.public.Addr().String()
	const path = "/v1/chat/completions"
	port := regexp.MustCompile("(^|[^0-9a-f])" + strings.Split(tr.host(), ":")[1] + "([^0-9a-f]|$)") // not within a minted id
	for name, tc := range map[string]struct {
		target string // request target; default: path
		host   string
		header [2]string
		field  string // of the body
		status int    // default 200
	}{
		"host header":                {host: tr.host()},
		"absolute target":            {target: tr.URL + path},
		"absolute target elsewhere":  {target: tr.URL + "/latest/meta-data", status: 404},
		"path to another listener":   {target: "/v1/../admin", status: 404},
		"absolute models":            {target: "//" + tr.host() + "/v1/models", status: 405},
		"at sign":                    {target: "/v1@" + tr.host(), status: 404},
		"forwarded":                  {header: [2]string{"X-Forwarded-Host", tr.host()}},
		"prefiller":                  {header: [2]string{"X-Prefiller-Host-Port", tr.host()}},
		"prefiller url":              {header: [2]string{"X-Prefiller-Url", tr.URL}},
		"encoder":                    {header: [2]string{"X-Encoder-Hosts-Ports", tr.host()}},
		"rank's address":             {header: [2]string{"X-Data-Parallel-Host-Port", tr.host()}},
		"bootstrap header":           {header: [2]string{"X-Bootstrap-Host", tr.host()}},
		"gateway header":             {header: [2]string{"X-Gateway-Destination-Endpoint", tr.host()}},
		"request id with an address": {header: [2]string{"X-Request-Id", "___prefill_addr_" + tr.host() + "___decode_addr_" + tr.host() + "_1"}},
		"kv_transfer_params":         {field: fmt.Sprintf(`"kv_transfer_params":{"remote_host":%q}`, tr.host())},
		"bootstrap_host":             {field: fmt.Sprintf(`"bootstrap_host":%q,"bootstrap_port":1,"bootstrap_room":1`, tr.host())},
		"disaggregated_params":       {field: fmt.Sprintf(`"disaggregated_params":{"ctx_info_endpoint":%q}`, tr.host())},
		"escaped field name":         {field: fmt.Sprintf(`"bootstrap_ho\u0073t":%q`, tr.host())},
	} {
		got.Store(nil)
		target := tc.target
		if target == "" {
			target = path
		}
		req, err := http.NewRequest(http.MethodPost, base+path, strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]`+strings.TrimSuffix(","+tc.field, ",")+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = target // written as it stands
		req.Host = tc.host
		req.Header.Set("Content-Type", "application/json")
		if tc.header[0] != "" {
			req.Header.Set(tc.header[0], tc.header[1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		res.Body.Close()
		if want := max(tc.status, 200); res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, want)
		}
		at := got.Load()
		if (at != nil) != (tc.status == 0) {
			t.Errorf("%s: the engine was asked: %v", name, at != nil)
		}
		if at == nil {
			continue
		}
		if at.Host != strings.TrimPrefix(engine.URL, "http://") || port.MatchString(*gotBody.Load()) {
			t.Errorf("%s: host %s, body %s", name, at.Host, *gotBody.Load())
		}
		for k, v := range at.Header {
			if k != "X-Forwarded-Host" && port.MatchString(fmt.Sprint(v)) {
				t.Errorf("%s: the engine gets %s: %s", name, k, v)
			}
		}
	}
	if n := tr.hits.Load(); n != 0 {
		t.Errorf("the router went elsewhere %d times", n)
	}
}
