package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
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
