//go:build e2e

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The first shell block of README.md works as it stands: it is run in a network
// of its own, so that its ports are free, in a folder of its own.
func TestTheTenMinutePath(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root for a network namespace")
	}
	for _, tool := range []string{"haproxy", "unshare", "ip", "curl", "make", "bash"} {
		lookup(t, tool)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("README.md has no shell block")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(root, "deploy"))); err != nil {
		t.Fatal(err)
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "bin", "banyan")); err != nil {
		t.Fatal(err)
	}
	script := strings.Replace(string(block[1]), "make build\n", "", 1) // the binary is there
	script = "set -eu\nip link set lo up\n" + script + "\nbin/banyan status --peer 127.0.0.1:8091 --check --wait 60s\ngrep -H WARN p*.log || true\nkill -9 $(jobs -p)\n"
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "bash", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "unshare failed") {
		t.Skipf("skipped: %s", out)
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, warning := range []string{"hash_secret", "not encrypted", "not ready"} {
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "[WARN]") && strings.Contains(line, warning) {
				t.Errorf("the quick start warns: %s", line)
			}
		}
	}
	for _, want := range []string{"all is well, seen from p1", `"object":"chat.completion"`, "3/3 peers, 3/3 replicas, 0 divergent", "failed              0"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	matched := regexp.MustCompile(`X-Banyan-Matched-Tokens: (\d+)`).FindAllStringSubmatch(string(out), -1)
	if len(matched) != 2 || matched[0][1] != "0" || matched[1][1] == "0" {
		t.Errorf("the same prompt twice was matched %v:\n%s", matched, out)
	}
}
