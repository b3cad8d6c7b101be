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
	"slices"
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
			t.Logf("nginx: %s", unexpected(said.String()))
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

// unexpected is what nginx said beside the refused connects of peers that have
// gone, which it tries again every 2 s.
func unexpected(log string) string {
	refused := 0
	var others strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, "Connection refused") || strings.Contains(line, "temporarily disabled") {
			refused++
			continue
		}
		others.WriteString(line)
	}
	return fmt.Sprintf("%d lines of refused connects; %s", refused, others.String())
}

// nginx is a running balancer that tells nothing of itself: it never asks
// /readyz, and a refused connect is its only sign of a peer that has gone.
type nginx struct {
	tier    *tier
	address string
}

func (n *nginx) url() string { return "http://" + n.address }

// waitUp waits until the peer there is ready: nginx tries an address that
// refused again after 2 s.
func (n *nginx) waitUp(slot int) {
	n.tier.t.Helper()
	eventually(n.tier.t, "the successor is ready", func() bool {
		st := n.tier.living[slot].status()
		return st != nil && st.Ready
	})
}

// waitFor also waits until all other addresses refuse.
func (n *nginx) waitFor(up ...int) {
	n.tier.t.Helper()
	for _, slot := range up {
		n.waitUp(slot)
	}
	eventually(n.tier.t, "the others have closed their listeners", func() bool {
		for slot, address := range n.tier.ports {
			c, err := net.Dial("tcp", address)
			if err == nil {
				c.Close()
			}
			if open := err == nil; open != slices.Contains(up, slot) {
				return false
			}
		}
		return true
	})
}

func TestScalingAndRestartsBehindNginx(t *testing.T) {
	lookup(t, "nginx")
	t.Parallel() // it is minutes of waiting
	scaleAndRestart(t, func(tr *tier) balancer { return &nginx{tr, startNginx(t, tr.ports[:])} })
}
