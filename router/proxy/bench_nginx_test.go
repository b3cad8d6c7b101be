package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// nginxConfig is a plain proxy_pass with kept connections and streaming.
const nginxConfig = `daemon off; master_process off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/error.log crit;
events {}
http {
  access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  client_body_buffer_size 1m; keepalive_requests 1000000;
  upstream engine { server %[2]s; keepalive 16; keepalive_requests 1000000; }
  server {
    listen %[3]s;
    location / { proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
  }
}`

// startNginx runs nginx in front of an upstream and returns its URL and
// process; the benchmark is skipped where there is none.
func startNginx(b *testing.B, upstream string) (string, *os.Process) {
	b.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		b.Skip("no nginx to compare with")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	target, err := url.Parse(upstream)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(nginxConfig, dir, target.Host, address)), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(binary, "-c", file, "-p", dir)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 200 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return "http://" + address, cmd.Process
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("nginx does not listen")
	return "", nil
}

// processSeconds is the processor time of another process, in ticks of 10 ms.
func processSeconds(b *testing.B, p *os.Process) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		b.Skip("no /proc")
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// BenchmarkProxyAgainstNginx compares processor time per request: what this
// proxy adds to a direct request (client and upstream share its process) and
// what an nginx worker spends on the same requests in turn.
func BenchmarkProxyAgainstNginx(b *testing.B) {
	for _, c := range []struct {
		name         string
		size, chunks int
	}{{"whole/1KB", 1 << 10, 0}, {"whole/16KB", 16 << 10, 0}, {"stream100/1KB", 1 << 10, 100}} {
		b.Run(c.name, func(b *testing.B) {
			upstream := benchUpstream(c.chunks, 0, false)
			defer upstream.Close()
			nginx, process := startNginx(b, upstream.URL)
			target := &Target{Replica: "r0", URL: upstream.URL, Policy: "ttft"}
			h, err := New(Config{Peer: "p", Pick: func(context.Context, *Call) (*Target, error) { return target, nil }})
			if err != nil {
				b.Fatal(err)
			}
			front := httptest.NewServer(h)
			defer front.Close()
			client := NewTransport()
			defer client.CloseIdleConnections()
			body := benchBody(c.size, c.chunks > 0)
			const run = 50
			spend := func(url string) float64 {
				begin := cpuSeconds()
				for range run {
					benchAsk(b, client, url, body)
				}
				return cpuSeconds() - begin
			}
			var direct, ours float64
			begin := processSeconds(b, process)
			for b.Loop() {
				direct += spend(upstream.URL)
				ours += spend(front.URL)
				spend(nginx)
			}
			theirs := processSeconds(b, process) - begin
			n := float64(b.N * run)
			b.ReportMetric((ours-direct)/n*1e6, "ours-cpu-us")
			b.ReportMetric(theirs/n*1e6, "nginx-cpu-us")
			if theirs > 0 {
				b.ReportMetric((ours-direct)/theirs, "x-nginx")
			}
		})
	}
}

// benchAsk makes one request and reads its answer: time to its end and to its
// first byte.
func benchAsk(b *testing.B, client http.RoundTripper, url, body string) (whole, first time.Duration) {
	b.Helper()
	begin := time.Now()
	req, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	at, err := drain(res)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("%d %v", res.StatusCode, err)
	}
	return time.Since(begin), at.Sub(begin)
}
