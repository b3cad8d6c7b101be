//go:build e2e

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Engines that tell of a thousand ranks each push no listed replica out, cost
// little, and are told.
func TestToldRanksAreBounded(t *testing.T) {
	var asked atomic.Int64
	boasting := func(sources bool) string {
		var page []string
		for i := range 1024 {
			page = append(page, fmt.Sprintf(`"%d":{"endpoint":"tcp://*:%d"}`, i, 20000+i))
		}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			switch {
			case r.URL.Path == "/v1/models" && sources:
				_, _ = io.WriteString(w, `{"data":[{"id":"m","owned_by":"vllm"}]}`)
			case r.URL.Path == "/v1/models":
				_, _ = io.WriteString(w, `{"data":[{"id":"m","owned_by":"sglang"}]}`)
			case r.URL.Path == "/kv_event_sources" && sources:
				_, _ = io.WriteString(w, "{"+strings.Join(page, ",")+"}")
			case r.URL.Path == "/server_info" && !sources:
				_, _ = io.WriteString(w, `{"page_size":16,"dp_size":1024}`)
			case r.URL.Path != "/health":
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	r := replicaProcess(t, "z")
	p := single(t, "--replicas", fmt.Sprintf("[{name: a, url: '%s'}, {name: b, url: '%s'}, {name: c, url: '%s'}, {name: d, url: '%s'}, {name: z, url: 'http://%s'}]",
		boasting(true), boasting(false), boasting(true), boasting(false), r.said["http"]))
	eventually(t, "ranks are told, cut, and z stays", func() bool {
		s := p.status()
		if s == nil {
			return false
		}
		has := map[string]bool{}
		for i := range s.Replicas {
			has[s.Replicas[i].Name] = true
		}
		text, code := p.check()
		return has["a/1"] && has["b/1"] && has["c/1"] && has["d/1"] && has["z"] && len(s.Replicas) < 600 && code == exitFailed &&
			strings.Contains(strings.Join(strings.Fields(text), " "), "says that it runs 1024 data-parallel ranks")
	})
	p.evidence("four engines tell 1,024 ranks each")
	before := asked.Load()
	time.Sleep(5 * time.Second)
	each := float64(asked.Load()-before) / 5 / 4
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "VmRSS") {
			t.Logf("%.1f questions a second for each engine, %s", each, strings.TrimSpace(line))
		}
	}
	if each > 30 { // 0.5 for its health, 2 for its load, 0.1 for its models; one for each rank would be over 300
		t.Errorf("%.1f questions a second for each engine", each)
	}
	p.stop()
}
