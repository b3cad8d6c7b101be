package fleet

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// discover runs discovery against the server until the test ends; the answer
// tells the names of the replicas now.
func (a *apiServer) discover(t *testing.T, k *Kubernetes) func() string {
	t.Helper()
	k.API, k.Namespace, k.Selector, k.Wait = a.URL, "ns", "app=vllm", 2*time.Millisecond
	if k.Port == 0 {
		k.Port = 8000
	}
	if k.Client == nil {
		k.Client = a.Client()
	}
	var now atomic.Pointer[string]
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx, func(specs []Spec) {
			names := make([]string, 0, len(specs))
			for _, s := range specs {
				names = append(names, s.Name)
			}
			text := strings.Join(names, " ")
			now.Store(&text)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() string {
		if s := now.Load(); s != nil {
			return *s
		}
		return "(nothing yet)"
	}
}

func TestPodsComeAndGo(t *testing.T) {
	a := newAPI(t)
	a.event("ADDED", podObject("a", "10.0.0.1", "Running", true))
	a.event("ADDED", podObject("pending", "", "Pending", false))
	a.event("ADDED", podObject("loading", "10.0.0.9", "Running", false))
	names := a.discover(t, &Kubernetes{})
	eventually(t, "the list", func() bool { return names() == "a" })
	a.event("ADDED", podObject("b", "10.0.0.2", "Running", true))
	eventually(t, "a new pod", func() bool { return names() == "a b" })
	a.event("MODIFIED", podObject("loading", "10.0.0.9", "Running", true))
	eventually(t, "a pod that became ready", func() bool { return names() == "a b loading" })
	a.event("MODIFIED", podObject("b", "10.0.0.2", "Running", false))
	a.event("DELETED", podObject("a", "10.0.0.1", "Running", true))
	eventually(t, "a deleted pod is gone, one that was ready stays for the probes", func() bool { return names() == "b loading" })
	ending := podObject("b", "10.0.0.2", "Running", true)
	ending["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	a.event("MODIFIED", ending)
	eventually(t, "a pod on its way out gets nothing more", func() bool { return names() == "loading" })
	again := podObject("b", "10.0.0.3", "Running", false) // another pod of that name
	a.event("DELETED", ending)
	a.event("ADDED", again)
	a.event("ADDED", podObject("c", "10.0.0.4", "Running", true))
	eventually(t, "its namesake is not ready", func() bool { return names() == "c loading" })
	if lists, _, bad := a.counts(); lists != 1 || len(bad) > 0 {
		t.Errorf("%d lists, strange calls %q", lists, bad)
	}
}

func TestAPodIsDescribed(t *testing.T) {
	ps := pods{}
	for _, p := range []string{
		`{"metadata":{"name":"a","namespace":"x","resourceVersion":"1","labels":{"llm-d.ai/role":"prefill","llm-d.ai/engine-type":"sglang","banyan-llm.github.io/priority":"higher-first","banyan-llm.github.io/p2p-port":"5710"}},"status":{"phase":"Running","podIP":"fd00::7","conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":"b","namespace":"x","resourceVersion":"2","labels":{"llm-d.ai/role":"boss","llm-d.ai/engine-type":"tgi","banyan-llm.github.io/kind":"render","banyan-llm.github.io/priority":"urgent","banyan-llm.github.io/p2p-port":"5710"}},"status":{"phase":"Running","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":"evil","namespace":"x","resourceVersion":"3"},"status":{"phase":"Running","podIP":"metadata.google.internal","conditions":[{"type":"Ready","status":"True"}]}}`,
	} {
		if _, err := ps.apply([]byte(`{"type":"ADDED","object":` + p + `}`)); err != nil {
			t.Fatal(err)
		}
	}
	specs := ps.specs(8000, &Template{EventsPort: 5556, ReplayPort: 5557, Model: "m"}, true)
	if len(specs) != 2 {
		t.Fatalf("%+v", specs)
	}
	want := Spec{Name: "x/a", URL: "http://[fd00::7]:8000", Engine: "sglang", Role: "prefill", Events: "tcp://[fd00::7]:5556", Replay: "tcp://[fd00::7]:5557", Model: "m", Priority: HigherFirst}
	if !specs[0].same(&want) || specs[1].Engine != "" || specs[1].Role != "" || specs[1].Kind != KindRender || specs[1].Priority != "" || specs[1].P2P != "10.0.0.1:5710" {
		t.Errorf("%+v", specs)
	}
	if err := ValidateSpecs(specs); err != nil {
		t.Error(err)
	}
}

// A pod deleted and made again while nobody listened has its namesake's name
// and nothing else.
func TestANamesakeIsAnotherPod(t *testing.T) {
	ps := pods{}
	line := func(uid, ready string) string {
		return `{"type":"MODIFIED","object":{"metadata":{"name":"a-0","namespace":"x","uid":"` + uid + `","resourceVersion":"1"},` +
			`"status":{"phase":"Running","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"` + ready + `"}]}}}`
	}
	for _, step := range []struct {
		uid, ready string
		listed     int
	}{{"1", "False", 0}, {"1", "True", 1}, {"1", "False", 1}, {"2", "False", 0}, {"2", "True", 1}} {
		if _, err := ps.apply([]byte(line(step.uid, step.ready))); err != nil {
			t.Fatal(err)
		}
		if got := len(ps.specs(80, &Template{}, false)); got != step.listed {
			t.Errorf("%+v: %d replicas", step, got)
		}
	}
}

func TestGoneIsToldFromGarbage(t *testing.T) {
	for line, want := range map[string]error{
		`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}`: errGone,
		`{"type":"ERROR","object":{"kind":"Status","code":500}}`:                    errEvent,
		`{"type":"ERROR"}`: errEvent,
	} {
		if _, err := (pods{}).apply([]byte(line)); !errors.Is(err, want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestLinesAreBounded(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 99)+"\nshort\r\n"+strings.Repeat("y", 100)+"\n"), 16)
	for _, want := range []int{99, 5} {
		if line, err := readLine(r, 100); err != nil || len(line) != want {
			t.Errorf("%d bytes, %v, want %d", len(line), err, want)
		}
	}
	if line, err := readLine(r, 100); !errors.Is(err, errTooLarge) {
		t.Errorf("%d bytes, %v", len(line), err)
	}
}

func TestAnExpiredVersionListsAgain(t *testing.T) {
	a := newAPI(t)
	a.event("ADDED", podObject("a", "10.0.0.1", "Running", true))
	names := a.discover(t, &Kubernetes{})
	eventually(t, "the list", func() bool { return names() == "a" })
	a.event("MODIFIED", podObject("a", "10.0.0.1", "Running", false))
	a.mu.Lock()
	delete(a.pods, "a") // deleted while nobody listened
	a.mu.Unlock()
	a.event("ADDED", podObject("b", "10.0.0.2", "Running", true))
	a.forget()
	eventually(t, "a is gone, b is there", func() bool { return names() == "b" })
	if lists, _, _ := a.counts(); lists < 2 {
		t.Errorf("%d lists", lists)
	}
}

// A watch that is cut goes on from its last version, without a list.
func TestACutWatchGoesOn(t *testing.T) {
	a := newAPI(t)
	for i := range 40 {
		a.event("ADDED", podObject(fmt.Sprintf("p%02d", i), fmt.Sprintf("10.0.0.%d", i+1), "Running", true))
	}
	a.cut = func(n int) (string, bool) {
		switch n {
		case 1, 2: // nothing at all
			return "", true
		case 3: // in the middle of a line, behind a whole one
			return `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"40"}}}` + "\n" + `{"type":"ADDED","obj`, true
		}
		return "", false
	}
	names := a.discover(t, &Kubernetes{})
	eventually(t, "watches were cut", func() bool { _, watches, _ := a.counts(); return watches > 3 })
	a.event("ADDED", podObject("z", "10.0.1.1", "Running", true))
	eventually(t, "the new pod", func() bool { return strings.HasSuffix(names(), " z") && strings.HasPrefix(names(), "p00 p01 ") })
	if lists, _, _ := a.counts(); lists != 1 {
		t.Errorf("%d lists", lists)
	}
}

func TestGarbageInAWatchChangesNothing(t *testing.T) {
	for name, line := range map[string]string{
		"no JSON": "<html>\n", "no event": "{}\n", "unknown type": `{"type":"EXPLODED","object":{"metadata":{"resourceVersion":"9"}}}` + "\n",
		"no version": `{"type":"DELETED","object":{"metadata":{"name":"a","namespace":"ns"}}}` + "\n",
		"an error":   `{"type":"ERROR","object":{"code":500}}` + "\n",
		"no name":    `{"type":"ADDED","object":{"metadata":{"resourceVersion":"3"}}}` + "\n",
		"endless":    strings.Repeat("x", maxEventBytes+1),
	} {
		a := newAPI(t)
		a.event("ADDED", podObject("a", "10.0.0.1", "Running", true))
		a.cut = func(n int) (string, bool) { return line, n == 1 }
		k := &Kubernetes{}
		names := a.discover(t, k)
		eventually(t, name+": it goes on", func() bool { _, watches, _ := a.counts(); return watches > 1 })
		if got := names(); got != "a" {
			t.Errorf("%s: %q", name, got)
		}
		a.event("ADDED", podObject("b", "10.0.0.2", "Running", true))
		eventually(t, name+": and follows", func() bool { return names() == "a b" && k.Trouble() == "" })
	}
}

func TestAnAPIServerThatFailsChangesNothing(t *testing.T) {
	a := newAPI(t)
	a.event("ADDED", podObject("a", "10.0.0.1", "Running", true))
	a.token = "first"
	var token atomic.Value
	token.Store("wrong")
	k := &Kubernetes{Token: func() (string, error) { return token.Load().(string), nil }}
	names := a.discover(t, k)
	eventually(t, "the refusal is told", func() bool { return strings.Contains(k.Trouble(), "401") })
	token.Store("first")
	eventually(t, "the list", func() bool { return names() == "a" && k.Trouble() == "" })
	a.mu.Lock()
	a.token = "second" // rotated
	a.mu.Unlock()
	a.CloseClientConnections()
	eventually(t, "the refusal is told", func() bool { return strings.Contains(k.Trouble(), "401") })
	if got := names(); got != "a" {
		t.Errorf("I6: %q while the server refuses", got)
	}
	token.Store("second")
	a.event("ADDED", podObject("b", "10.0.0.2", "Running", true))
	eventually(t, "the new pod", func() bool { return names() == "a b" })
}

func TestLongListsComeInPages(t *testing.T) {
	a := newAPI(t)
	a.pageSize = 7
	for i := range 30 {
		a.event("ADDED", podObject(fmt.Sprintf("p%02d", i), fmt.Sprintf("10.0.0.%d", i+1), "Running", true))
	}
	names := a.discover(t, &Kubernetes{})
	eventually(t, "all of them", func() bool { return len(strings.Fields(names())) == 30 })
	if lists, _, _ := a.counts(); lists != 5 {
		t.Errorf("%d pages", lists)
	}
}

func TestHugeListsAreRefused(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range maxListBytes>>20 + 2 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	k := &Kubernetes{API: srv.URL, Client: srv.Client()}
	if _, _, err := k.list(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
}

// The token goes to a server that the account's authority vouches for, and to
// nobody else.
func TestServiceAccount(t *testing.T) {
	var token atomic.Value
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization") + " " + r.URL.Path)
		fmt.Fprint(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("namespace", "prod\n")
	write("token", "s3cret\n")
	cfg := KubernetesConfig{Selector: "app=x", Port: 1, API: srv.URL, Account: dir}
	k, err := NewKubernetes(cfg, Template{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.list(t.Context(), nil); err == nil || token.Load() != nil {
		t.Errorf("a server nobody vouches for got %v, error %v", token.Load(), err)
	}
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	if k, err = NewKubernetes(cfg, Template{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.list(t.Context(), nil); err != nil || token.Load() != "Bearer s3cret /api/v1/namespaces/prod/pods" {
		t.Errorf("%v, error %v", token.Load(), err)
	}
	cfg.API = "http://127.0.0.1:1"
	if k, err = NewKubernetes(cfg, Template{}, nil); err != nil || k.Token != nil {
		t.Errorf("the token would go in the clear; error %v", err)
	}
	write("ca.crt", "nonsense")
	if _, err = NewKubernetes(cfg, Template{}, nil); err == nil {
		t.Error("a broken authority passes")
	}
}

func TestKubernetesFaultsAreReportedByKey(t *testing.T) {
	c := KubernetesConfig{Selector: "a=b", API: "ftp://x", Namespace: "a b"}
	replica := Template{Engine: "tgi", EventsPort: 70000, Role: "boss"}
	err := errors.Join(c.Validate("discovery.kubernetes"), replica.Validate("discovery.replica"))
	for _, want := range []string{"kubernetes.port:", "kubernetes.api:", "kubernetes.namespace:", "replica.engine:", "replica.events_port:", "replica.role:"} {
		if err == nil || !strings.Contains(err.Error(), "discovery."+want) {
			t.Errorf("%s is missing in: %v", want, err)
		}
	}
	if err := (&KubernetesConfig{Port: -1}).Validate("k"); err != nil {
		t.Errorf("off, and yet: %v", err)
	}
}

func FuzzWatchEvent(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"},"status":{"phase":"Running","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}]}}}`))
	f.Add([]byte(`{"type":"ERROR","object":{"code":410}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		ps := pods{}
		if _, err := ps.apply(line); err != nil && len(ps) > 0 {
			t.Error("a line that was refused left something behind")
		}
		if err := ValidateSpecs(ps.specs(8000, &Template{EventsPort: 1}, false)); err != nil {
			t.Error(err)
		}
	})
}
