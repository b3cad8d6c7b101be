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

	"github.com/banyan-llm/banyan/router/access"
)

// clientEnv starts one peer that asks for keys in front of one replica.
func clientEnv(t *testing.T) []string {
	t.Helper()
	return clientEnvOf(t, 1, "", 1)
}

// clientEnvOf starts some peers that ask for keys in front of some replicas.
func clientEnvOf(t *testing.T, peers int, more string, replicas int) []string {
	t.Helper()
	key, line := access.NewKey("tester")
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var engines []*process
	for i := range replicas {
		engines = append(engines, replicaProcess(t, fmt.Sprintf("r%d", i)))
	}
	mesh := meshWith(t, peers, fmt.Sprintf("auth: {keys_file: %q}\n%s", keys, more), engines...)
	return append(os.Environ(), "BASE_URL=http://"+mesh[0].said["http"]+"/v1", "OTHER_URL=http://"+mesh[peers-1].said["http"]+"/v1", "API_KEY="+key)
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

func TestOfficialPythonClients(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/pyclient")); err != nil {
		t.Fatal(err)
	}
	python := os.Getenv("TEST_PYTHON") // one that has the clients, if set
	if python == "" {
		if err := fetch(dir, "python3", "-m", "venv", "venv"); err != nil {
			t.Skipf("skipped: no virtual environment for Python: %v", err)
		}
		python = filepath.Join(dir, "venv", "bin", "python")
		if err := fetch(dir, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"); err != nil {
			t.Skipf("skipped: the clients could not be fetched: %v", err)
		}
	}
	run := exec.Command(python, "main.py")
	run.Dir, run.Env = dir, clientEnvOf(t, 2, "", 3)
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "python client ok") {
		t.Errorf("%v: %s", err, out)
	}
}
