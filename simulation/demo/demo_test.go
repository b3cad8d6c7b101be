package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/client"
	"github.com/banyan-llm/banyan/simulation/freeport"
)

func backendServer(t *testing.T, name string) *httptest.Server {
	t.Helper()
	address, err := freeport.Address() // of one that dies, too
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			fmt.Fprint(w, name)
		}
	}))
	srv.Listener.Close()
	if srv.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

func runBalancer(t *testing.T, backends ...*httptest.Server) *balancer {
	t.Helper()
	b, err := newBalancer()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range backends {
		b.add(s.Listener.Addr().String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return b
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

func TestBalancerTakesBackendsInTurn(t *testing.T) {
	lb, err := newBalancer()
	if err != nil {
		t.Fatal(err)
	}
	defer lb.listener.Close()
	lb.add("a")
	lb.add("b")
	a, b := lb.backends[0], lb.backends[1]
	for _, up := range []bool{false, true} { // before anybody was asked, and after
		a.up, b.up = up, up
		for i := range 20 {
			if got, want := lb.pick(nil), lb.backends[i%2]; got != want {
				t.Errorf("up %v: connection %d went to %s", up, i, got.address)
			}
		}
	}
	a.up = false
	for range 3 {
		if got := lb.pick(nil); got != b {
			t.Errorf("a connection went to %s, which is down", got.address)
		}
	}
	if got := lb.pick(map[*backend]bool{b: true}); got != a {
		t.Errorf("no other accepted, and %v was tried", got)
	}
}

func TestBalancerSkipsDeadBackends(t *testing.T) {
	a, b := backendServer(t, "a"), backendServer(t, "b")
	lb := runBalancer(t, a, b)
	seen := map[string]bool{}
	for until := time.Now().Add(20 * time.Second); len(seen) < 2; seen[get(t, lb.url())] = true {
		if time.Now().After(until) {
			t.Fatalf("only %v answered", seen)
		}
	}
	a.Close()
	for range 10 {
		if got := get(t, lb.url()); got != "b" {
			t.Errorf("answered %q", got)
		}
	}
}

func TestSummaryCountsWhatTheKilledPeerDidNotExcuse(t *testing.T) {
	answers := []client.Answer{
		{Replica: "r0", Prompt: 100, Cached: 60, TTFT: 10 * time.Millisecond},
		{Replica: "r1", Prompt: 100, Cached: 20, TTFT: 30 * time.Millisecond},
		{Peer: "c", Began: true, Err: io.ErrUnexpectedEOF},
		{Peer: "a", Began: true, Err: io.ErrUnexpectedEOF},
	}
	p := summarise(answers, 2, func(a client.Answer) bool { return a.Peer == "c" })
	if p.Failed != 1 || p.CachedTokenRatio != 0.4 || p.TTFTMs.P50 != 30 || p.LoadCV < 0.33 || p.LoadCV > 0.34 {
		t.Errorf("%+v", p)
	}
}

func TestQuantileOfBuckets(t *testing.T) {
	bounds := []float64{1, 2, 4}
	cumulative := map[float64]float64{1: 10, 2: 30, 4: 40}
	for q, want := range map[float64]float64{.25: 1, .5: 1.5, 1: 4} {
		if got := fromBuckets(bounds, cumulative, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := fromBuckets(nil, nil, .5); got != 0 {
		t.Errorf("no buckets give %v", got)
	}
}

func TestReportSaysNoWhenACheckFails(t *testing.T) {
	r := &Report{Policies: map[string]PolicyReport{}}
	r.check(true, "fine", "")
	r.check(false, "wrong", "%d failed", 3)
	var out strings.Builder
	r.Write(&out)
	if r.OK() || !strings.Contains(out.String(), "[FAIL] wrong: 3 failed") || !strings.Contains(out.String(), "NOT all checks hold") {
		t.Errorf("%s", out.String())
	}
}

func TestConfigFaultsAreAllReported(t *testing.T) {
	cfg := Config{Peers: 1, Replicas: 0, Requests: 1}
	err := cfg.Validate()
	for _, key := range []string{"--peers", "--replicas", "--requests"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is missing in %v", key, err)
		}
	}
}

// TestReportKeepsItsNames: scripts read them.
func TestReportKeepsItsNames(t *testing.T) {
	r := &Report{Policies: map[string]PolicyReport{"ttft": {TTFTMs: Quantiles{P90: 1}}}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(`peers replicas requests failed converged divergent_streams
		policies.ttft.cached_token_ratio policies.ttft.ttft_ms.p50 policies.ttft.ttft_ms.p90 policies.ttft.ttft_ms.p99 policies.ttft.load_cv
		propagation_ms.p50 propagation_ms.p99 killed_peer.in_flight_lost killed_peer.requests_failed killed_peer.reconverged_ms
		joined_peer.ready_ms joined_peer.facts`) {
		at := doc
		for key := range strings.SplitSeq(path, ".") {
			object, _ := at.(map[string]any)
			at = object[key]
		}
		if at == nil {
			t.Errorf("%s is not in %s", path, text)
		}
	}
}
