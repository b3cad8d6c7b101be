//go:build e2e

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router"
)

// clientEnv starts one peer that asks for keys in front of one replica.
func clientEnv(t *testing.T) []string {
	t.Helper()
	key, line := router.NewKey("tester")
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	peers := meshWith(t, 1, fmt.Sprintf("auth: {keys_file: %q}\n", keys), replicaProcess(t, "r0"))
	return append(os.Environ(), "BASE_URL=http://"+peers[0].said["http"]+"/v1", "API_KEY="+key)
}

func TestOfficialNodeClient(t *testing.T) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/nodeclient")); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v: %s", err, out)
	}
	run := exec.Command("node", "main.js")
	run.Dir, run.Env = dir, clientEnv(t)
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "node client ok") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOfficialGoClient(t *testing.T) {
	run := exec.Command("go", "run", ".")
	run.Dir, run.Env = "testdata/goclient", clientEnv(t)
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "go client ok") {
		t.Errorf("%v: %s", err, out)
	}
}
