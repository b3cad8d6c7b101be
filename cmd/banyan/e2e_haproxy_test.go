//go:build e2e

package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/simulation/freeport"
)

func lookup(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Skipf("skipped: %s is not installed", tool)
	}
	return path
}

func TestBalancerConfigurationsAreValid(t *testing.T) {
	t.Run("haproxy", func(t *testing.T) {
		if out, err := exec.Command(lookup(t, "haproxy"), "-c", "-f", deployed("haproxy.cfg")).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("nginx", func(t *testing.T) {
		nginx := lookup(t, "nginx")
		path, _ := filepath.Abs(deployed("nginx-stream.conf"))
		out, err := exec.Command(nginx, "-t", "-c", path, "-g", "user root;").CombinedOutput()
		if bytes.Contains(out, []byte("ngx_stream_module.so\" failed")) {
			t.Skip("skipped: nginx has no stream module")
		}
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// haproxy is a running balancer with the shipped configuration, but for
// addresses.
type haproxy struct {
	t       *testing.T
	address string
	socket  string
}

// shippedLines are the lines of deploy/haproxy.cfg that name addresses, and
// what stands there in the test.
func shippedLines(listen, socket string, servers []string) [][2]string {
	var lines strings.Builder
	for i, s := range servers {
		fmt.Fprintf(&lines, "    server s%d %s\n", i, s)
	}
	return [][2]string{
		{`(?m)^    stats socket .*$`, "    stats socket " + socket + " mode 600 level admin"},
		{`(?m)^    log stdout .*$`, ""},
		{`(?ms)^resolvers dns$.*?\n\n`, ""},
		{`(?m)^    bind :8000 `, "    bind " + listen + " "},
		{`(?m)^    server-template .*\n`, lines.String()},
		{`(?ms)^frontend stats$.*\z`, ""},
	}
}

func startHAProxy(t *testing.T, servers []string) *haproxy {
	t.Helper()
	path := lookup(t, "haproxy")
	shipped, err := os.ReadFile(deployed("haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h := &haproxy{t: t, address: freePort(t), socket: filepath.Join(dir, "s")}
	for _, line := range shippedLines(h.address, h.socket, servers) {
		re := regexp.MustCompile(line[0])
		if !re.Match(shipped) {
			t.Fatalf("deploy/haproxy.cfg has no line %s", line[0])
		}
		shipped = re.ReplaceAllLiteral(shipped, []byte(line[1]))
	}
	cfg := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(cfg, shipped, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-db", "-f", cfg)
	said := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("haproxy: %s", said)
		}
	})
	return h
}

// freePort is a loopback address nobody listens on at the moment, and that is
// given once.
func freePort(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// states asks the stats socket for the state of every server.
func (h *haproxy) states() map[string]string {
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		return nil
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	_, _ = io.WriteString(c, "show stat\n")
	r := csv.NewReader(c)
	r.FieldsPerRecord = -1
	rows, _ := r.ReadAll()
	out := map[string]string{}
	for _, row := range rows {
		if len(row) > 17 && row[0] == "banyan" {
			out[row[1]] = row[17]
		}
	}
	return out
}

func (h *haproxy) url() string { return "http://" + h.address }

func (h *haproxy) waitUp(slot int) {
	h.t.Helper()
	eventually(h.t, "the balancer sees the successor", func() bool { return h.states()[fmt.Sprintf("s%d", slot)] == "UP" })
}

// waitFor waits until exactly these slots are up.
func (h *haproxy) waitFor(up ...int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("the balancer sees exactly %v up", up), func() bool {
		st := h.states()
		for i := range slots {
			want := "DOWN" // "UP 1/2" still gets connections
			if slices.Contains(up, i) {
				want = "UP"
			}
			if st[fmt.Sprintf("s%d", i)] != want {
				return false
			}
		}
		return true
	})
}

func TestScalingAndRestartsBehindHAProxy(t *testing.T) {
	lookup(t, "haproxy")
	t.Parallel() // it is minutes of waiting
	scaleAndRestart(t, func(tr *tier) balancer { return startHAProxy(t, tr.ports[:]) })
}
