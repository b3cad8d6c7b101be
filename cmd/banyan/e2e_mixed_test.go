//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/console"
)

// intent drains or undrains a replica through a peer.
func (p *process) intent(replica, verb string) {
	p.t.Helper()
	res, err := http.Post("http://"+p.said["admin"]+"/v1/replicas/"+replica+"/"+verb, "", nil)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s %s: %v", verb, replica, err)
	}
	res.Body.Close()
}

// named finds a replica in what a peer says; an empty one if it is not there.
func (p *process) named(replica string) console.Replica {
	if st := p.status(); st != nil {
		for _, r := range st.Replicas {
			if r.Name == replica {
				return r
			}
		}
	}
	return console.Replica{}
}

// everywhere waits until every peer says so of a replica.
func everywhere(t *testing.T, peers []*process, replica, what string, ok func(r console.Replica) bool) {
	t.Helper()
	eventually(t, replica+": "+what, func() bool {
		for _, p := range peers {
			if !ok(p.named(replica)) {
				return false
			}
		}
		return true
	})
}

// mixedPool is one replica of each kind, and how it is configured: nobody says
// what its engine is.
func mixedPool(t *testing.T) (names []string, config string) {
	t.Helper()
	var cfg strings.Builder
	add := func(name string, args []string, format string, values func(*process) []any) {
		r := replicaProcess(t, name, args...)
		names = append(names, name)
		fmt.Fprintf(&cfg, "- {name: %s, url: 'http://%s'"+format+"}\n", append([]any{name, r.said["http"]}, values(r)...)...)
	}
	none := func(*process) []any { return nil }
	add("vllm", nil, ", events: '%s', replay: '%s'", func(r *process) []any { return []any{r.said["events"], r.said["replay"]} })
	add("sglang64", []string{"--engine", "sglang", "--block-size", "64"}, "", none)
	add("sglang1", []string{"--engine", "sglang", "--block-size", "1"}, "", none)
	add("trtllm", []string{"--engine", "trtllm", "--block-size", "32"}, ", events: poll", none)
	return names, "mesh: {insecure: true}\ningest: {owners: '1'}\ndrain: {delay: 300ms, timeout: 5s}\nreplicas:\n" + cfg.String()
}

// With one owner a stream, half of what a peer knows of load, and of what is
// cached, comes from the other peer.
func TestMixedPoolIsRecognisedAndRouted(t *testing.T) {
	names, config := mixedPool(t)
	peers := meshFrom(t, 2, config)
	for name, want := range map[string]struct {
		engine, from string
		page         int
	}{
		"vllm":     {"vllm", "/metrics", 16},
		"sglang64": {"sglang", "/server_info", 64},
		"sglang1":  {"sglang", "/server_info", 1},
		"trtllm":   {"trtllm", "/prometheus/metrics", 32},
	} {
		everywhere(t, peers, name, "its engine is known, and its load", func(r console.Replica) bool {
			return r.Engine == want.engine && r.EngineFrom == "/v1/models" && r.Source == "static" &&
				r.BlockSize != nil && *r.BlockSize == want.page && r.BlockFrom == want.from && r.KVUse != nil && r.Running != nil
		})
	}
	for i, home := range names {
		t.Run(home, func(t *testing.T) { staysAt(t, peers, names, home, i) })
	}
	for _, name := range names {
		everywhere(t, peers, name, "its events are followed", func(r console.Replica) bool { return r.Stream.State == "ok" && r.Stream.Facts > 0 })
	}
	eventually(t, "all digests are equal", func() bool { return converged(peers) })
	for _, p := range peers {
		p.stop()
	}
}

// staysAt begins a conversation while only one replica may take it, and
// expects its next turns to go there by what is cached.
func staysAt(t *testing.T, peers []*process, names []string, home string, seed int) {
	t.Helper()
	for _, verb := range []string{"drain", "undrain"} {
		for _, other := range names {
			if other == home {
				continue
			}
			peers[0].intent(other, verb)
			everywhere(t, peers, other, verb, func(r console.Replica) bool { return (r.State == "draining") == (verb == "drain") })
		}
		if verb == "undrain" {
			break
		}
		if replica, _, _ := peers[0].say(opening(seed)); replica != home {
			t.Fatalf("went to %s while only %s was not drained", replica, home)
		}
	}
	talk := opening(seed)
	for turn := range 4 {
		calm(t, peers)
		replica, reply, cached := peers[turn%len(peers)].say(talk)
		if replica != home || cached == 0 {
			t.Errorf("turn %d went to %s with %d cached tokens, home is %s", turn, replica, cached, home)
		}
		talk = append(talk, message{"assistant", reply}, message{"user", fmt.Sprintf("And then, %d?", turn)})
	}
}

func opening(seed int) []message {
	return []message{{"system", strings.Repeat(fmt.Sprintf("Conversation %d wants care. ", seed), 60)}, {"user", "Hello."}}
}

// podList is a Kubernetes API server that knows one list of pods; its watch
// tells what is sent to it.
func podList(t *testing.T, items []any, events <-chan any) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": items})
			return
		}
		w.(http.Flusher).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case e := <-events:
				_ = json.NewEncoder(w).Encode(e)
				w.(http.Flusher).Flush()
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestNamesBecomeReplicas(t *testing.T) {
	r := replicaProcess(t, "named", "--engine", "sglang")
	_, port, err := net.SplitHostPort(r.said["http"])
	if err != nil {
		t.Fatal(err)
	}
	p := launch(t, "serve", "--insecure-mesh", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0",
		"--drain.delay", "100ms", "--discovery.dns", "http://localhost:"+port)
	eventually(t, "the address is a replica", func() bool {
		q := p.named("127.0.0.1:" + port)
		return q.State == "up" && q.Engine == "sglang" && q.Source == "dns" && q.Stream.State == "ok" && len(q.Models) == 1
	})
	if replica, _, _ := p.say(opening(1)); replica != "127.0.0.1:"+port {
		t.Errorf("answered by %s", replica)
	}
	p.stop()
}

func TestPodsBecomeReplicasAndLeave(t *testing.T) {
	r := replicaProcess(t, "pod", "--engine", "sglang")
	u, err := url.Parse("http://" + r.said["http"])
	if err != nil {
		t.Fatal(err)
	}
	pod := map[string]any{
		"metadata": map[string]any{"name": "pod-0", "namespace": "ns", "uid": "u", "resourceVersion": "2"},
		"status": map[string]any{
			"phase": "Running", "podIP": u.Hostname(), "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		},
	}
	events := make(chan any, 1)
	api := podList(t, []any{}, events)
	p := launch(t, "serve", "--insecure-mesh", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0",
		"--drain.delay", "100ms", "--discovery.kubernetes.selector", "app=x", "--discovery.kubernetes.namespace", "ns",
		"--discovery.kubernetes.api", api.URL, "--discovery.kubernetes.port", u.Port())
	eventually(t, "no replica is no readiness", func() bool { st := p.status(); return st != nil && !st.Ready && len(st.Replicas) == 0 })
	events <- map[string]any{"type": "ADDED", "object": pod}
	eventually(t, "the pod is a replica whose events are followed", func() bool {
		q := p.named("pod-0")
		return q.State == "up" && q.Engine == "sglang" && q.Source == "kubernetes" && q.Stream.State == "ok" && len(q.Models) == 1
	})
	eventually(t, "the peer is ready", func() bool { st := p.status(); return st != nil && st.Ready })
	p.say(opening(1))
	eventually(t, "facts arrive", func() bool { return p.named("pod-0").Stream.Facts > 0 })
	events <- map[string]any{"type": "DELETED", "object": pod}
	eventually(t, "the pod is gone", func() bool { st := p.status(); return st != nil && len(st.Replicas) == 0 && !st.Ready })
	p.stop()
}
