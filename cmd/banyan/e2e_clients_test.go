//go:build e2e

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// fetchLimit bounds one try to fetch packages.
const fetchLimit = 2 * time.Minute

// fetch lets a package manager fetch what a folder asks for, and once more if
// that failed: a registry may be out of reach for a moment, or for good.
func fetch(dir, tool string, args ...string) (err error) {
	for range 2 {
		var out []byte
		ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
		out, err = cmd.CombinedOutput()
		cancel()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s %s: %w: %s", tool, args[0], err, out)
	}
	return err
}

func npmInstall(dir string) error {
	return fetch(dir, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error")
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
	if err := npmInstall(dir); err != nil {
		t.Skipf("skipped: the client could not be fetched: %v", err)
	}
	run := exec.Command("node", "main.js")
	run.Dir, run.Env = dir, clientEnv(t)
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "node client ok") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOfficialGoClient(t *testing.T) {
	if err := fetch("testdata/goclient", "go", "mod", "download"); err != nil {
		t.Skipf("skipped: the client could not be fetched: %v", err)
	}
	run := exec.Command("go", "run", ".")
	run.Dir, run.Env = "testdata/goclient", clientEnv(t)
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "go client ok") {
		t.Errorf("%v: %s", err, out)
	}
}
