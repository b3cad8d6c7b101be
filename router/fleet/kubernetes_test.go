package fleet

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// apiServer is a Kubernetes API server of one resource.
type apiServer struct {
	*httptest.Server

	mu       sync.Mutex // guards below
	version  int
	pods     map[string]map[string]any
	log      []string // events; log[i] made version i+1
	oldest   int      // versions below are gone
	changed  chan struct{}
	lists    int
	watches  int
	bad      []string // "METHOD query" that made no sense
	cut      func(watch int) (line string, cut bool)
	token    string
	pageSize int
}

func newAPI(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{pods: map[string]map[string]any{}, changed: make(chan struct{}), pageSize: 1000}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

// pod describes a pod; ready is the kubelet's word.
func podObject(name, ip, phase string, ready bool) map[string]any {
	status := "False"
	if ready {
		status = "True"
	}
	return map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "ns", "uid": "u-" + name + ip},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "x", "env": "ignored"}}},
		"status":   map[string]any{"phase": phase, "podIP": ip, "conditions": []any{map[string]any{"type": "Ready", "status": status}}},
	}
}

// event changes the state: ADDED, MODIFIED or DELETED.
func (a *apiServer) event(kind string, object map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	meta := object["metadata"].(map[string]any)
	meta["resourceVersion"] = strconv.Itoa(a.version)
	if kind == "DELETED" {
		delete(a.pods, meta["name"].(string))
	} else {
		a.pods[meta["name"].(string)] = object
	}
	line, _ := json.Marshal(map[string]any{"type": kind, "object": object})
	a.log = append(a.log, string(line))
	close(a.changed)
	a.changed = make(chan struct{})
}

// forget makes all versions so far too old to watch from.
func (a *apiServer) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.oldest = a.version + 1
	a.version++
	a.log = append(a.log, "")
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *apiServer) counts() (lists, watches int, bad []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lists, a.watches, slices.Clone(a.bad)
}

func (a *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.mu.Lock()
	token := a.token
	if r.URL.Path != "/api/v1/namespaces/ns/pods" || q.Get("labelSelector") != "app=vllm" || r.Method != http.MethodGet {
		a.bad = append(a.bad, r.Method+" "+r.URL.String())
	}
	a.mu.Unlock()
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if q.Get("watch") == "true" {
		a.watch(w, r)
		return
	}
	a.list(w, q.Get("continue"))
}

func (a *apiServer) list(w http.ResponseWriter, after string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists++
	names := slices.Sorted(maps.Keys(a.pods))
	items, more := []any{}, ""
	for i, name := range names {
		if name <= after {
			continue
		}
		items = append(items, a.pods[name])
		if len(items) == a.pageSize && i < len(names)-1 {
			more = name
			break
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version), "continue": more}, "items": items,
	})
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.watches++
	number, cut := a.watches, a.cut
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil || r.URL.Query().Get("allowWatchBookmarks") != "true" || r.URL.Query().Get("timeoutSeconds") == "" {
		a.bad = append(a.bad, "watch "+r.URL.String())
	}
	a.mu.Unlock()
	flusher := w.(http.Flusher)
	flusher.Flush()
	if cut != nil {
		if line, end := cut(number); end {
			fmt.Fprint(w, line)
			return
		}
	}
	for {
		a.mu.Lock()
		if from < a.oldest {
			a.mu.Unlock()
			fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}`)
			return
		}
		news, changed := slices.Clone(a.log[min(from, len(a.log)):]), a.changed
		from = len(a.log)
		a.mu.Unlock()
		for _, line := range news {
			if line != "" {
				fmt.Fprintln(w, line)
			}
		}
		flusher.Flush()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

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
		`{"metadata":{"name":"a","namespace":"x","resourceVersion":"1","labels":{"llm-d.ai/role":"prefill","llm-d.ai/engine-type":"sglang"}},"status":{"phase":"Running","podIP":"fd00::7","conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":"b","namespace":"x","resourceVersion":"2","labels":{"llm-d.ai/role":"boss","llm-d.ai/engine-type":"tgi"}},"status":{"phase":"Running","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}]}}`,
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
	want := Spec{Name: "x/a", URL: "http://[fd00::7]:8000", Engine: "sglang", Role: "prefill", Events: "tcp://[fd00::7]:5556", Replay: "tcp://[fd00::7]:5557", Model: "m"}
	if !specs[0].same(&want) || specs[1].Engine != "" || specs[1].Role != "" {
		t.Errorf("%+v", specs)
	}
	if err := ValidateSpecs(specs); err != nil {
		t.Error(err)
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
	k, err := NewKubernetes(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.list(t.Context(), nil); err == nil || token.Load() != nil {
		t.Errorf("a server nobody vouches for got %v, error %v", token.Load(), err)
	}
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	if k, err = NewKubernetes(cfg, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.list(t.Context(), nil); err != nil || token.Load() != "Bearer s3cret /api/v1/namespaces/prod/pods" {
		t.Errorf("%v, error %v", token.Load(), err)
	}
	cfg.API = "http://127.0.0.1:1"
	if k, err = NewKubernetes(cfg, nil); err != nil || k.Token != nil {
		t.Errorf("the token would go in the clear; error %v", err)
	}
	write("ca.crt", "nonsense")
	if _, err = NewKubernetes(cfg, nil); err == nil {
		t.Error("a broken authority passes")
	}
}

func TestKubernetesFaultsAreReportedByKey(t *testing.T) {
	c := KubernetesConfig{Selector: "a=b", API: "ftp://x", Namespace: "a b", Template: Template{Engine: "tgi", EventsPort: 70000, Role: "boss"}}
	err := c.Validate("discovery.kubernetes")
	for _, want := range []string{".port:", ".api:", ".namespace:", ".engine:", ".events_port:", ".role:"} {
		if err == nil || !strings.Contains(err.Error(), "discovery.kubernetes"+want) {
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
