//go:build e2e

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// startNginx runs the shipped configuration but for addresses.
func startNginx(t *testing.T, servers []string) (address string) {
	t.Helper()
	path := lookup(t, "nginx")
	shipped, err := os.ReadFile(deployed("nginx-stream.conf"))
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), freePort(t)
	var lines strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&lines, "        server %s max_fails=1 fail_timeout=2s;\n", s)
	}
	for _, line := range [][2]string{
		{`(?m)^pid .*$`, "pid " + filepath.Join(dir, "pid") + ";"},
		{`(?m)^    worker_connections .*$`, "    worker_connections 1024;"},
		{`(?m)(^        server \S+ max_fails=1 fail_timeout=2s;\n)+`, lines.String()},
		{`(?m)^        listen 8000 `, "        listen " + address + " "},
	} {
		re := regexp.MustCompile(line[0])
		if !re.Match(shipped) {
			t.Fatalf("deploy/nginx-stream.conf has no line %s", line[0])
		}
		shipped = re.ReplaceAllLiteral(shipped, []byte(line[1]))
	}
	cfg := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(cfg, shipped, 0o600); err != nil {
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	cmd := exec.Command(path, "-c", cfg, "-g", "daemon off; user root;")
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // ends the workers, too
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("nginx: %s", said)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address
		}
		if strings.Contains(said.String(), "ngx_stream_module.so\" failed") {
			t.Skip("skipped: nginx has no stream module")
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not listen: %s", said)
		}
	}
}

// nginx never asks /readyz: the closed listener is the only sign of a drain.
func TestRollingRestartBehindNginx(t *testing.T) {
	lookup(t, "nginx")
	tr := newTier(t, []*process{replicaProcess(t, "r0"), replicaProcess(t, "r1")})
	for slot := range 3 {
		tr.start(slot)
	}
	eventually(t, "all peers are ready", func() bool {
		for _, p := range tr.living {
			if st := p.status(); st == nil || !st.Ready || len(st.Peers) != 3 {
				return false
			}
		}
		return true
	})
	url := "http://" + startNginx(t, tr.ports[:3])
	r := &record{}
	begun := time.Now()
	end := r.run(
		talkers{set: "fast", url: url, clients: 30, output: [2]int{1, 2}, think: [2]time.Duration{0, 60 * time.Millisecond}, turns: 12},
		talkers{set: "slow", url: url, clients: 12, output: [2]int{60, 220}, think: [2]time.Duration{0, 300 * time.Millisecond}, turns: 6},
	)
	defer end()
	time.Sleep(2 * time.Second)
	for slot := range 3 {
		tr.term(slot)()
		tr.start(slot)
		p := tr.living[slot]
		eventually(t, "the successor is ready", func() bool { st := p.status(); return st != nil && st.Ready })
	}
	time.Sleep(settled)
	from := time.Now()
	time.Sleep(shareWindow)
	judgeShares(t, shares(r.between(from, time.Now())), tr.names, 3)
	end()
	all := r.between(begun, time.Now())
	for _, a := range failures(all) {
		t.Errorf("%s request through %q at %.1f s failed after %.2f s: %v", a.set, a.peer, a.at.Sub(begun).Seconds(), a.end.Sub(a.at).Seconds(), a.err)
	}
	t.Logf("%d requests, cached %.3f, shares at the end %v", len(all), cachedShare(all), shares(r.between(from, time.Now())))
}
