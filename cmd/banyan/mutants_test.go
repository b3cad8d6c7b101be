//go:build mutants

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant is one deliberate bug and the test that must notice it. The lists lie
// beside the code as testdata/mutants*.txt; their heads describe the format:
// blocks between lines of three dashes, the fields name, file (from the root,
// or from the package's folder), test, old and new, the latter two indented by
// one tab or four spaces.
type mutant struct {
	name, file, test, old, new string
}

func parseMutants(text string) ([]mutant, error) {
	var out []mutant
	for block := range strings.SplitSeq(text, "\n---\n") {
		m, field := mutant{}, ""
		body := map[string]*strings.Builder{"old": {}, "new": {}}
		for line := range strings.SplitSeq(strings.TrimPrefix(block, "---\n"), "\n") {
			switch name, value, _ := strings.Cut(line, ":"); {
			case strings.HasPrefix(line, "    ") && field != "":
				body[field].WriteString(line[4:] + "\n")
			case strings.HasPrefix(line, "\t") && field != "":
				body[field].WriteString(line[1:] + "\n")
			case line == "" && field != "":
				body[field].WriteString("\n")
			case strings.HasPrefix(line, "#") || line == "":
			case name == "name":
				m.name = strings.TrimSpace(value)
			case name == "file":
				m.file = strings.TrimSpace(value)
			case name == "test":
				m.test = strings.TrimSpace(value)
			case name == "old" || name == "new":
				field = name
			case field != "":
				body[field].WriteString(line + "\n")
			case len(out) > 0 || m.name != "": // the first block may begin with prose
				return nil, fmt.Errorf("line %q is not understood", line)
			}
		}
		if m.name == "" {
			continue
		}
		m.old = strings.TrimRight(body["old"].String(), "\n")
		m.new = strings.TrimRight(body["new"].String(), "\n")
		out = append(out, m)
	}
	return out, nil
}

func mutantFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Base(filepath.Dir(path)) == "testdata" && strings.HasPrefix(d.Name(), "mutants") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no mutants found: %v", err)
	}
	return files
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*)|^(FAIL\s+\S+ \[build failed\])`)

// TestMutants applies each mutant through a build overlay (the tree is not
// touched) and expects its test to fail.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range mutantFiles(t, root) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, err := parseMutants(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, m := range list {
			if !strings.Contains(m.file, "/") {
				rel, err := filepath.Rel(root, filepath.Dir(filepath.Dir(file)))
				if err != nil {
					t.Fatal(err)
				}
				m.file = filepath.Join(rel, m.file)
			}
			t.Run(filepath.Dir(m.file)+"/"+m.name, func(t *testing.T) { m.run(t, root) })
		}
	}
}

func (m mutant) run(t *testing.T, root string) {
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("the old text occurs %d times in %s", n, m.file)
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
	cmd := exec.Command("go", "test", "-overlay", overlayPath, "-count", "1", "-timeout", "120s", "-run", m.test, "./"+filepath.Dir(m.file))
	cmd.Dir = root
	failures := filepath.Join(root, filepath.Dir(m.file), "testdata", "rapid")
	if _, err := os.Stat(failures); os.IsNotExist(err) {
		defer os.RemoveAll(failures) // what rapid keeps of a failing draw is of the mutant
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("survived: %s passes", m.test)
		return
	}
	found := failedTest.FindStringSubmatch(string(out))
	switch {
	case found == nil:
		t.Errorf("no test failed, but go test did:\n%s", out)
	case found[3] != "":
		t.Errorf("the mutant does not build:\n%s", out)
	default:
		t.Logf("killed by %s%s", found[1], found[2])
	}
}
