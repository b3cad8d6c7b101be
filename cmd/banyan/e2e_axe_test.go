//go:build e2e

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// axeCore fetches the accessibility checker once; it is used by tests alone
// and no part of the repository.
var axeCore = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "banyan-axe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS("testdata/axe")); err != nil {
		return "", err
	}
	if err := npmInstall(dir); err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	return string(source), err
})

// axeSource is the checker's script, or "" with a line that says why not.
func axeSource(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Log("accessibility is not checked: npm is not installed")
		return ""
	}
	source, err := axeCore()
	if err != nil {
		t.Logf("accessibility is not checked: axe-core could not be fetched: %v", err)
	}
	return source
}

// accessible fails on every violation of WCAG 2.2 AA and of the checker's best
// practices.
func (p *tab) accessible(where, axe string) {
	p.t.Helper()
	var loaded bool
	if p.eval(`'axe' in window`, &loaded); !loaded {
		p.eval(axe+"; 0", nil)
	}
	var report struct {
		Violations []struct {
			ID, Help string
			Nodes    []struct {
				Target  []any
				Summary string `json:"failureSummary"`
			}
		}
		Passes int
	}
	p.eval(`axe.run(document).then(r => ({violations: r.violations, passes: r.passes.length}))`, &report)
	for _, v := range report.Violations {
		nodes, _ := json.Marshal(v.Nodes[:min(3, len(v.Nodes))])
		p.t.Errorf("%s: %s: %s: %d times: %s", where, v.ID, v.Help, len(v.Nodes), nodes)
	}
	if report.Passes < 10 {
		p.t.Errorf("%s: only %d rules were checked", where, report.Passes)
	}
}
