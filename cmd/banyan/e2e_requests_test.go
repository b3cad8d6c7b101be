//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/requests"
)

// lateBy is how long fakeEngine takes for the model late, and slowFrom what the
// tests call slow.
const (
	lateBy   = 1500 * time.Millisecond
	slowFrom = 1200 * time.Millisecond
)

// fakeEngine serves the models good, late and bad: the last one's connections
// break before an answer.
// A flaky one breaks all of them.
func fakeEngine(t *testing.T, flaky bool, models ...string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Model string }
		if r.Method == http.MethodPost {
			_ = json.NewDecoder(r.Body).Decode(&body)
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"`+strings.Join(models, `"},{"id":"`)+`"}]}`)
		case r.Method == http.MethodGet:
		case r.URL.Path != "/v1/chat/completions":
			w.WriteHeader(http.StatusNotFound)
		case body.Model == "bad" || flaky:
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
		default:
			if body.Model == "late" {
				time.Sleep(lateBy)
			}
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// askFor sends one request and returns its id and status.
func (p *process) askFor(model, clientID string) (id string, status int) {
	p.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+p.said["http"]+"/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"a secret prompt"}]}`))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", clientID)
	req.Header.Set("X-Banyan-Policy", "round_robin")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.Header.Get("X-Request-Id"), res.StatusCode
}

// why runs `banyan why` against the peer.
func (p *process) why(args ...string) (text string, code int) {
	p.t.Helper()
	path, err := binary()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := exec.Command(path, append([]string{"why", "--peer", p.said["admin"]}, args...)...).CombinedOutput()
	if err != nil {
		code = 1
	}
	return string(out), code
}

// A request that failed, one that was slow and one that was retried are found by
// their ids: what was known, every candidate, what came of it. Another peer says
// whose the request was.
func TestWhyARequestWentWhereItWent(t *testing.T) {
	engine, flaky := fakeEngine(t, false, "good", "late", "bad"), fakeEngine(t, true, "good")
	peers := meshFrom(t, 2, fmt.Sprintf(`
mesh: {insecure: true}
drain: {delay: 100ms}
http: {policy_override: true}
access_log: {mode: "off", slow: %v}
replicas:
- {name: r0, url: %q, engine: vllm}
- {name: r1, url: %q, engine: vllm, model: good}
`, slowFrom, engine, flaky))
	p := peers[0]
	eventually(t, "both replicas are up", func() bool {
		s := p.status()
		return s != nil && s.Replicas[0].State == "up" && s.Replicas[1].State == "up" && len(s.Replicas[0].Models) == 3
	})
	has := func(id string, wants ...string) {
		t.Helper()
		text, code := p.why(id)
		for _, want := range wants {
			if code != exitOK || !strings.Contains(text, want) {
				t.Errorf("%s: exit code %d, no %q in:\n%s", id, code, want, text)
			}
		}
		if strings.Contains(text, "secret") {
			t.Errorf("a prompt is told:\n%s", text)
		}
	}
	failed, status := p.askFor("bad", "of the client")
	if status != http.StatusBadGateway {
		t.Fatalf("status %d", status)
	}
	has(failed, failed+": FAILED: refused with 502 replica_failed", "model       bad", "client id   of the client", "reset", "r0 <- chosen", "Choice 1", "policy round_robin")
	has("of the client", failed)
	slow, _ := p.askFor("late", "")
	has(slow, "answered by r0 with status 200 after 1.", "reported cached 8")
	retried := ""
	eventually(t, "a request is retried", func() bool {
		id, status := p.askFor("good", "")
		text, _ := p.why(id)
		if status == http.StatusOK && strings.Contains(text, "after 2 tries") {
			retried = id
		}
		return retried != ""
	})
	has(retried, "answered by r0 with status 200", "1  r1", "2  r0", "Choice 2", "CANDIDATE")
	aboutRequest := regexp.MustCompile(`\[WARN\] .*replica down: replica=r1 .*request=[0-9a-f]{32}`)
	eventually(t, "the warning about a replica names the request that failed there", func() bool {
		p.askFor("good", "")
		return aboutRequest.MatchString(p.errs.String())
	})
	list, _ := p.why()
	for _, id := range []string{failed, slow, retried} {
		if !strings.Contains(list, id) {
			t.Errorf("the list lacks %s:\n%s", id, list)
		}
	}
	if text, code := peers[1].why(failed); code == exitOK || !strings.Contains(text, "routed by peer p0 on host 127.0.0.1 (alive): run banyan why "+failed) {
		t.Errorf("another peer: exit code %d, %s", code, text)
	}
	if text, code := p.why("nobody's"); code == exitOK || !strings.Contains(text, "no request with this id") {
		t.Errorf("a wrong id: exit code %d, %s", code, text)
	}
	raw, err := p.admin.call(t.Context(), http.MethodGet, "/v1/decisions?n=512")
	if err != nil || !strings.Contains(string(raw), `"`+retried+`"`) {
		t.Errorf("decisions do not name the request: %v", err)
	}
	for _, q := range peers {
		q.stop()
	}
}

// Each mode of the access log has the lines it promises, and no prompt.
func TestTheAccessLogOfEachMode(t *testing.T) {
	engine, dir := fakeEngine(t, false, "good", "late", "bad"), t.TempDir()
	for mode, want := range map[string]string{"off": "", "errors": "bad", "slow": "bad late", "sampled": "bad good late", "all": "bad good late"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, mode)
			p := launch(t, "serve", "--insecure-mesh", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0",
				"--drain.delay", "100ms", "--access_log.mode", mode, "--access_log.path", path, "--access_log.slow", slowFrom.String(), "--access_log.sample", "1",
				"--limits.retries", "0", "--replicas", fmt.Sprintf("[{name: r0, url: %q, engine: vllm}]", engine))
			eventually(t, "the models are known", func() bool {
				s := p.status()
				return s != nil && len(s.Replicas) == 1 && len(s.Replicas[0].Models) == 3
			})
			ids := map[string]string{}
			begin := time.Now()
			ids["good"], _ = p.askFor("good", "")
			quick := time.Since(begin) < slowFrom
			ids["late"], _ = p.askFor("late", "")
			ids["bad"], _ = p.askFor("bad", "")
			p.stop()
			text, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(text), "secret") {
				t.Fatalf("%v in %s", err, text)
			}
			got := map[string]requests.ToldRecord{}
			for line := range strings.Lines(string(text)) {
				var r requests.ToldRecord
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				got[r.Model] = r
			}
			for model, id := range ids {
				r, logged := got[model]
				if logged != strings.Contains(want, model) && (model != "good" || quick) || logged && r.ID != id {
					t.Errorf("%s: logged %v as %+v, want id %s", model, logged, r, id)
				}
			}
			if r := got["bad"]; mode != "off" && (r.Status != http.StatusBadGateway || r.Error != "replica_failed" || r.Replica != "r0" || len(r.Tries) != 1 || r.Tries[0].Cause != "reset") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Whoever reads the access log and stands still holds no request and not the end
// of the process: lines are dropped, counted and told.
func TestAStalledReaderOfTheLogHoldsNoRequest(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &process{t: t, said: map[string]string{}, errs: &logBuffer{}, done: make(chan error, 1)}
	p.cmd = exec.Command(path, "serve", "--insecure-mesh", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0",
		"--drain.delay", "100ms", "--access_log.mode", "all", "--replicas", fmt.Sprintf("[{name: r0, url: %q, engine: vllm}]", fakeEngine(t, false, "good")))
	p.cmd.Stdout, p.cmd.Stderr = in, p.errs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	line := make([]byte, 256) // where it listens; nothing is read after that
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(line[:n])) {
		if k, v, ok := strings.Cut(word, "="); ok {
			p.said[k] = v
		}
	}
	p.admin.peer = p.said["admin"]
	go func() { p.done <- p.cmd.Wait() }()
	eventually(t, "the model is known", func() bool {
		s := p.status()
		return s != nil && len(s.Replicas) == 1 && len(s.Replicas[0].Models) == 1
	})
	const senders, each = 8, 700 // the queue takes 4096 lines, the pipe about a hundred
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				if _, status := p.askFor("none", ""); status != http.StatusNotFound {
					t.Errorf("status %d", status)
				}
			}
		})
	}
	wg.Wait()
	if text := adminGet(t, "http://"+p.said["admin"]+"/metrics"); strings.Contains(text, `banyan_access_log_lines_total{outcome="dropped"} 0`) {
		t.Error("no line was dropped: the reader did not stand still")
	}
	eventually(t, "the log tells", func() bool { return strings.Contains(p.errs.String(), "access log lines dropped") })
	p.stop()
}
