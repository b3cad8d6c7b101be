//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/console"
)

// mounted is a folder of files as Kubernetes mounts a ConfigMap: a change is
// the swap of one link.
type mounted struct {
	t       *testing.T
	dir     string
	version int
}

func (m *mounted) put(files map[string]string) {
	m.t.Helper()
	m.version++
	data := fmt.Sprintf("..v%d", m.version)
	must := func(err error) {
		if err != nil {
			m.t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(m.dir, data), 0o700))
	for name, text := range files {
		must(os.WriteFile(filepath.Join(m.dir, data, name), []byte(text), 0o600))
		if m.version == 1 {
			must(os.Symlink(filepath.Join("..data", name), m.path(name)))
		}
	}
	must(os.Symlink(data, m.path("..tmp")))
	must(os.Rename(m.path("..tmp"), m.path("..data")))
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

// runBinary runs a subcommand of the built binary.
func runBinary(t *testing.T, env []string, args ...string) (code int, out string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &text, &text
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), text.String()
}

// A running peer takes up what changes, refuses what is broken as a whole, and
// asks operators for their keys.
func TestConfigurationIsFollowed(t *testing.T) {
	r0, r1 := replicaProcess(t, "r0"), replicaProcess(t, "r1")
	adminKey, adminLine := access.NewKey("ops")
	readKey, readLine := access.NewKey("prometheus", "role=read")
	const gossip, gossip2 = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "ZWRjYmE5ODc2NTQzMjEwZmVkY2JhOTg3NjU0MzIxMGY="
	m := &mounted{t: t, dir: t.TempDir()}
	files := func(config, ring string) map[string]string {
		return map[string]string{"banyan.yaml": config, "admin.keys": adminLine + "\n" + readLine + "\n", "mesh.key": ring}
	}
	base := fmt.Sprintf("admin: {keys_file: %s}\nmesh: {keyring: %s}\ndrain: {delay: 100ms, timeout: 5s}\n", m.path("admin.keys"), m.path("mesh.key"))
	replicas := func(list ...*process) string {
		text := "replicas:\n"
		for i, r := range list {
			text += fmt.Sprintf("- {name: r%d, url: 'http://%s', credentials: hush-%d}\n", i, r.said["http"], i)
		}
		return text
	}
	m.put(files(base+replicas(r0), gossip))
	p := launch(t, "serve", "--config", m.path("banyan.yaml"), "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0")
	admin := &adminClient{peer: p.said["admin"], key: adminKey}
	status := func() *console.Status {
		st, _, err := fetchStatus(t.Context(), admin)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	eventually(t, "the peer is ready", func() bool { return status().Ready })
	was := status().Config

	m.put(files(base+"policy: random\nlog: {level: debug}\ngrid: 32\n"+replicas(r0, r1), gossip+"\n"+gossip2))
	eventually(t, "the new configuration is in force", func() bool {
		st := status()
		return len(st.Replicas) == 2 && st.Policy == "random" && len(st.Config.Restart) > 0
	})
	if st := status(); st.Grid != 16 || !slices.Equal(st.Config.Restart, []string{"grid"}) || st.Config.LoadedMs <= was.LoadedMs || st.Config.Hash == was.Hash {
		t.Errorf("status: grid %d, config %+v, before %+v", st.Grid, st.Config, was)
	}
	eventually(t, "both replicas are up", func() bool { st := status(); return st.Replicas[0].State == "up" && st.Replicas[1].State == "up" })

	m.put(files(base+"policy: nonsense\nlimits: {concurrency: 0}\n", "not a key"))
	eventually(t, "the broken configuration is refused", func() bool { return status().Config.Fault != "" })
	for _, want := range []string{"policy", "limits.concurrency"} {
		if fault := status().Config.Fault; !strings.Contains(fault, want) {
			t.Errorf("the fault does not say %q: %s", want, fault)
		}
	}
	if st := status(); len(st.Replicas) != 2 || st.Policy != "random" || st.OK {
		t.Errorf("a broken configuration changed something, or is no trouble: %d replicas, %s, %v", len(st.Replicas), st.Policy, st.OK)
	}

	env := []string{"BANYAN_ADMIN_PEER=" + p.said["admin"]}
	for _, tc := range []struct {
		env  []string
		args []string
		code int
		says string
	}{
		{env, []string{"status"}, exitFailed, "--admin-key-file"},
		{append(env, "BANYAN_ADMIN_KEY=nonsense"), []string{"status"}, exitFailed, "does not know this admin key"},
		{append(env, "BANYAN_ADMIN_KEY="+readKey), []string{"status"}, exitOK, "do not restart it for grid: this needs a new mesh"},
		{append(env, "BANYAN_ADMIN_KEY="+readKey), []string{"status", "--check"}, exitFailed, "was not applied"},
		{append(env, "BANYAN_ADMIN_KEY="+readKey), []string{"drain", "r0"}, exitFailed, "may only read"},
		{env, []string{"drain", "r0", "--admin-key-file", writeFile(t, adminKey+"\n")}, exitOK, "r0 is drained: no peer of the mesh"},
		{append(env, "BANYAN_ADMIN_KEY="+adminKey), []string{"undrain", "r0"}, exitOK, "r0 takes requests again, from every peer"},
	} {
		if code, out := runBinary(t, tc.env, tc.args...); code != tc.code || !strings.Contains(out, tc.says) {
			t.Errorf("%q: exit code %d, want %d; said %s", tc.args, code, tc.code, out)
		}
	}

	m.put(files(base+"policy: prefix\n"+replicas(r0, r1), gossip2))
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	eventually(t, "the mended configuration is in force", func() bool { st := status(); return st.Config.Fault == "" && st.Policy == "prefix" })
	p.stop()
	log := p.errs.String()
	for _, want := range []string{"policy: ttft -> random", "replicas: r0 -> r0 r1", "log.level: info -> debug", "mesh.keyring: 2 keys", "mesh.keyring: 1 keys", "keys=[\"grid\"]"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
	for _, secret := range []string{"hush", gossip, gossip2, adminKey, readKey} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// tell sends one prompt and returns what the answer says of it.
func tell(t *testing.T, url, key, tenant, salt, prompt string) (status int, matched string, cached int) {
	t.Helper()
	in := map[string]any{"model": "m", "prompt": prompt, "max_tokens": 4}
	if salt != "" {
		in["cache_salt"] = salt
	}
	body, _ := json.Marshal(in)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if tenant != "" {
		req.Header.Set("X-Tenant", tenant)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	_ = json.NewDecoder(res.Body).Decode(&out)
	return res.StatusCode, res.Header.Get("X-Banyan-Matched-Tokens"), out.Usage.Details.Cached
}

// Two tenants with equal prompts share neither what routers believe, nor what
// they predict, nor what engines hold; and none can pass for the other.
func TestTenantsShareNothing(t *testing.T) {
	for _, mode := range []string{"auto", "text"} {
		t.Run(mode, func(t *testing.T) {
			replicas := []*process{replicaProcess(t, "r0"), replicaProcess(t, "r1")}
			red, redLine := access.NewKey("red-1", "tenant=red")
			red2, red2Line := access.NewKey("red-2", "tenant=red")
			blue, blueLine := access.NewKey("blue")
			gate, gateLine := access.NewKey("gateway", "tenant=*")
			keys := writeFile(t, strings.Join([]string{redLine, red2Line, blueLine, gateLine}, "\n"))
			peers := meshWith(t, 2, fmt.Sprintf("isolate_by: X-Tenant\ntokenizer: %s\nauth: {keys_file: %s}\n", mode, keys), replicas...)
			a, b := "http://"+peers[0].said["http"], "http://"+peers[1].said["http"]
			prompt := strings.Repeat("The secret plan of a company is told in many words. ", 60)

			if status, matched, cached := tell(t, a, red, "", "", prompt); status != 200 || matched != "0" || cached != 0 {
				t.Fatalf("the first request: %d, matched %s, cached %d", status, matched, cached)
			}
			for who, key := range map[string]string{"the same key": red, "another key of the tenant": red2} {
				eventually(t, who+" finds its prefix at both peers", func() bool {
					_, m1, c1 := tell(t, a, key, "", "", prompt)
					_, m2, c2 := tell(t, b, key, "red", "", prompt)
					return m1 != "0" && m2 != "0" && c1 > 0 && c2 > 0
				})
			}
			for name, try := range map[string]func(url, prompt string) (int, string, int){
				"another key":           func(url, prompt string) (int, string, int) { return tell(t, url, blue, "", "", prompt) },
				"with red's salt":       func(url, prompt string) (int, string, int) { return tell(t, url, blue, "blue", "tenant:3:red", prompt) },
				"through the gateway":   func(url, prompt string) (int, string, int) { return tell(t, url, gate, "green", "", prompt) },
				"of no tenant":          func(url, prompt string) (int, string, int) { return tell(t, url, gate, "", "", prompt) },
				"of a look-alike":       func(url, prompt string) (int, string, int) { return tell(t, url, gate, "red ", "", prompt+" ") },
				"of red's other name":   func(url, prompt string) (int, string, int) { return tell(t, url, gate, "red:", "", prompt) },
				"with an own salt only": func(url, prompt string) (int, string, int) { return tell(t, url, gate, "yellow", "red", prompt) },
			} {
				// Once at one peer only: the second time its own prefix is there.
				status, matched, cached := try(a, prompt)
				own := name == "of a look-alike" // HTTP trims the value: it is red
				if status != 200 || (matched != "0" || cached != 0) != own {
					t.Errorf("%s: %d, matched %s, cached %d", name, status, matched, cached)
				}
			}
			for name, spoof := range map[string][2]string{"blue as red": {blue, "red"}, "red as blue": {red, "blue"}, "as nobody's": {blue, "*"}} {
				if status, _, _ := tell(t, a, spoof[0], spoof[1], "", prompt); status != http.StatusForbidden {
					t.Errorf("%s: %d", name, status)
				}
			}
			// The engines themselves keep them apart.
			for _, r := range replicas {
				if _, _, cached := tell(t, "http://"+r.said["http"], "", "", "", prompt); cached != 0 {
					t.Errorf("without a salt an engine finds %d tokens", cached)
				}
			}
		})
	}
}

// sink is an OTLP collector that keeps what it is sent.
type sink struct {
	*httptest.Server
	mu   sync.Mutex
	text bytes.Buffer
}

func newSink(t *testing.T) *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text.Write(body)
		fmt.Fprintf(&s.text, "%v", r.Header)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Secrets and prompts stand in no log, metric, status, page, trace or profile,
// whatever goes wrong.
func TestNoSecretAndNoPromptIsTold(t *testing.T) {
	const (
		prompt, salt, session, user = "MARKPROMPT", "MARKSALT", "MARKSESSION", "MARKUSER"
		upstream, token, tenant     = "MARKUPSTREAM", "MARKTOKEN", "MARKTENANT"
		header, answer              = "MARKHEADER", "MARKANSWER"
		gossip                      = "TUFSS0dPU1NJUE1BUktHT1NTSVBNQVJLR09TU0lQTUE="
	)
	clientKey, clientLine := access.NewKey("client", "tenant=*")
	adminKey, adminLine := access.NewKey("ops")
	marks := []string{prompt, salt, session, user, upstream, token, tenant, header, answer, gossip, clientKey, adminKey, "MARKWRONG"}

	good := replicaProcess(t, "r0")
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"bad"}]}`)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":{"message":"`+answer+`"}}`)
		case r.URL.Path == "/server_info":
			_, _ = io.WriteString(w, `{"api_key":"`+answer+`","page_size":"`+answer+`"}`)
		}
	}))
	t.Cleanup(failing.Close)
	traces := newSink(t)
	credentials := writeFile(t, upstream+"\n")
	clients, accessLog, config := writeFile(t, clientLine+"\n"), filepath.Join(t.TempDir(), "access.log"), ""
	config = fmt.Sprintf(`
mesh: {key: %s}
auth: {keys_file: %s}
admin: {keys_file: %s}
isolate_by: X-Tenant
ingest: {token: %s}
log: {level: debug}
access_log: {mode: all, path: %q}
tracing: {endpoint: %q}
drain: {delay: 100ms, timeout: 5s}
replicas:
- {name: r0, url: "http://%s", events: %q, replay: %q, model: m, credentials_file: %s}
- {name: r1, url: %q, model: bad, credentials: %s}
`, gossip, clients, writeFile(t, adminLine+"\n"), token, accessLog, traces.URL, good.said["http"], good.said["events"], good.said["replay"], credentials, failing.URL, upstream)
	path := writeFile(t, config)
	p := launch(t, "serve", "--config", path, "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0")
	eventually(t, "the peer is ready", func() bool {
		st, _, err := fetchStatus(t.Context(), &adminClient{peer: p.said["admin"], key: adminKey})
		return err == nil && st.Ready && st.Replicas[0].State == "up"
	})
	send := func(to, path, key, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.said[to]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{
			"Content-Type": "application/json", "Authorization": "Bearer " + key, "X-Banyan-Session": session, "X-Tenant": tenant, "X-Custom": header,
			"Cookie": header, "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		} {
			req.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	chat := func(model, more string) string {
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"user":%q,"cache_salt":%q,"max_tokens":4%s}`,
			model, strings.Repeat(prompt+" ", 40), user, salt, more)
	}
	const completions = "/v1/chat/completions"
	for range 3 {
		send("http", completions, clientKey, chat("m", ""))
		send("http", completions, clientKey, chat("m", `,"stream":true`))
		send("http", completions, clientKey, chat("bad", ""))
		send("http", completions, clientKey, chat("bad", `,"stream":true`))
	}
	send("http", completions, clientKey, chat(prompt, ""))
	send("http", completions, clientKey, `{"model":"m","messages":"`+prompt)
	send("http", completions, clientKey, `{"model":"m","messages":[{"role":"`+prompt+`"}],"n":"`+prompt+`"}`)
	send("http", completions, "MARKWRONG", chat("m", ""))
	send("http", "/v1/responses", clientKey, `{"model":"m","input":"`+prompt+`"}`)
	send("http", "/tokenize", clientKey, `{"model":"m","prompt":"`+prompt+`"}`)
	send("http", "/v1/"+prompt, clientKey, "{}")
	send("admin", "/v1/kv-events", token, `{"replica":"`+prompt+`"}`)
	send("admin", "/v1/kv-events", "MARKWRONG", `{}`)
	send("admin", "/v1/replicas/"+prompt+"/drain", "MARKWRONG", `{}`)

	// A broken reload tells of faults, not of what stands there.
	if err := os.WriteFile(path, []byte(strings.Replace(config, "credentials: "+upstream, "credentials: "+upstream+", credentials_env: X", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(clients, []byte("name:"+prompt+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	told := map[string]string{}
	get := func(path string) string {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.said["admin"]+path, nil)
		req.Header.Set("Authorization", "Bearer "+adminKey)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, res.Status)
		}
		limit := int64(64 << 20)
		if path == "/v1/watch" {
			limit = 20 << 10
		}
		text, _ := io.ReadAll(io.LimitReader(res.Body, limit))
		return string(text)
	}
	eventually(t, "the broken reload is told", func() bool { return strings.Contains(get("/v1/status"), "credentials") })
	for _, path := range []string{"/v1/status", "/metrics", "/v1/decisions?n=100", "/v1/tree?top=1000", "/", "/v1/requests", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"} {
		told[path] = get(path)
	}
	_, told["--print-config"] = runBinary(t, nil, "serve", "--config", writeFile(t, strings.Replace(config, clients, credentials, 1)), "--print-config")
	_, told["banyan status"] = runBinary(t, []string{"BANYAN_ADMIN_KEY=" + adminKey}, "status", "--peer", p.said["admin"])
	eventually(t, "traces arrive", func() bool { return strings.Contains(traces.got(), "banyan.replica") })
	p.stop()
	told["log"], told["traces"] = p.errs.String(), traces.got()
	logged, err := os.ReadFile(accessLog)
	if err != nil {
		t.Fatal(err)
	}
	// A model's name is logged as the client wrote it: else nobody finds a misspelt one.
	told["access log"] = strings.ReplaceAll(string(logged), `"model":"`+prompt+`"`, "")
	// Operators are told who uses what: tenants are names, no secrets.
	namesTenants := map[string]bool{"/v1/status": true, "/metrics": true, "/v1/tree?top=1000": true, "/": true, "/v1/requests": true, "access log": true}
	for where, text := range told {
		if len(text) < 100 {
			t.Errorf("%s says next to nothing: %q", where, text)
		}
		for _, mark := range marks {
			if mark == tenant && namesTenants[where] {
				continue
			}
			if i := strings.Index(text, mark); i >= 0 {
				t.Errorf("%s tells %s: …%s…", where, mark, text[max(0, i-120):min(len(text), i+60)])
			}
		}
	}
}
