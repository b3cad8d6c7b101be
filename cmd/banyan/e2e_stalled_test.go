//go:build e2e

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// Nobody reads the peer's log: its pipe is full, and requests go on, those too
// that a warning is written about.
func TestALogThatStandsStillHoldsNoRequest(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close() // ends who writes
	cmd := exec.Command("sh", "-c", `exec "$@" 2>&3`, "sh", path, "serve",
		"--insecure-mesh", "--drain.delay", "100ms", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0",
		"--limits.retries", "0", "--replicas", fmt.Sprintf("[{name: r0, url: %q, engine: vllm}]", fakeEngine(t, false, "good", "bad")))
	cmd.ExtraFiles = []*os.File{w}
	p := launchCommand(t, cmd)
	eventually(t, "the replica is up", func() bool {
		s := p.status()
		return s != nil && len(s.Replicas) == 1 && s.Replicas[0].State == "up"
	})
	var filled atomic.Int64
	go func() {
		for {
			if _, err := w.Write([]byte{'\n'}); err != nil {
				return
			}
			filled.Add(1)
		}
	}()
	eventually(t, "the pipe is full", func() bool {
		was := filled.Load()
		_ = p.status()
		return was > 1<<15 && filled.Load() == was
	})
	client := http.Client{Timeout: patience}
	for n := range 12 { // more than open the breaker, which is a warning
		res, err := client.Post("http://"+p.said["http"]+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"bad","messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
		res.Body.Close()
	}
	if s := p.status(); s == nil || s.Replicas[0].State == "up" {
		t.Errorf("no warning was due: %+v", s)
	}
}
