//go:build mutants

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// verdict is what became of a mutant: the test that killed it, or why none did.
type verdict struct {
	mutant
	killer, alive string
}

// violated finds the property and the seed that a run of the simulation tells.
var violated = regexp.MustCompile(`seed (\d+): (\w+) at `)

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*)|^(FAIL\s+\S+ \[build failed\])`)

// TestMutants applies each mutant through a build overlay (the tree is not
// touched) and expects its test to fail. At its end it prints a table of all,
// those that live first. A run of one group is TestMutants/FOLDER/.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var all []verdict
	for _, m := range mutants(t, root) {
		t.Run(m.group+"/"+m.name, func(t *testing.T) { all = append(all, m.run(t, root)) })
	}
	tellMutants(all)
}

// tellMutants prints what became of each mutant.
func tellMutants(all []verdict) {
	alive := 0
	for _, v := range all {
		if v.alive != "" {
			alive++
		}
	}
	slices.SortStableFunc(all, func(a, b verdict) int { return len(b.alive) - len(a.alive) })
	fmt.Printf("\n%d mutants, %d alive\n", len(all), alive)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "group\tmutant\tfile\tkilled by")
	for _, v := range all {
		by := v.killer
		if v.alive != "" {
			by = "ALIVE: " + v.alive
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.group, v.name, v.file, by)
	}
	_ = w.Flush()
}

// run tests the mutant.
func (m mutant) run(t *testing.T, root string) verdict {
	killer, alive := m.fate(t, root)
	if alive != "" {
		first, _, _ := strings.Cut(alive, "\n")
		t.Error(alive)
		return verdict{mutant: m, alive: first}
	}
	t.Logf("killed by %s", killer)
	return verdict{mutant: m, killer: killer}
}

// fate names the test that fails under the mutant, or says why none does.
func (m mutant) fate(t *testing.T, root string) (killer, alive string) {
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err.Error()
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Sprintf("its text occurs %d times in %s", n, m.file)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	overlayPath := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayPath, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"test", "-overlay", overlayPath, "-vet=off", "-failfast", "-count", "1", "-timeout", "120s", "-run", m.test, "./" + m.tested}
	if m.args != "" {
		args = append(append(args, "-args"), strings.Fields(m.args)...)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "BANYAN_TEST_PATIENCE=10s")
	failures := filepath.Join(root, m.tested, "testdata", "rapid")
	if _, err := os.Stat(failures); os.IsNotExist(err) {
		defer os.RemoveAll(failures) // what rapid keeps of a failing draw is of the mutant
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", m.test + " passes"
	}
	switch found := failedTest.FindStringSubmatch(string(out)); {
	case found == nil:
		return "", "no test failed, but go test did:\n" + string(out)
	case found[3] != "":
		return "", "it does not build:\n" + string(out)
	default:
		killer = found[1] + found[2]
		if v := violated.FindSubmatch(out); v != nil {
			killer = fmt.Sprintf("%s/%s, seed %s", found[1], v[2], v[1])
		}
		return killer, ""
	}
}
