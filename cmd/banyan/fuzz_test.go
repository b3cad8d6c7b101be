//go:build fuzz

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
)

var (
	fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	fuzzExecs  = regexp.MustCompile(`execs: (\d+)`)
)

// TestFuzz runs every fuzz target of the project in turn, FUZZTIME each, and
// prints a table of targets and executions. A run of one package is
// TestFuzz/FOLDER.
func TestFuzz(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	span := os.Getenv("FUZZTIME")
	if span == "" {
		span = "10s"
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\ttarget\texecutions\toutcome")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(d.Name(), "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, m := range fuzzTarget.FindAllSubmatch(text, -1) {
			t.Run(folder+"/"+string(m[1]), func(t *testing.T) {
				execs, outcome := fuzz(t, root, folder, string(m[1]), span)
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", folder, m[1], execs, outcome)
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = table.Flush()
}

// fuzz runs one target. Go before 1.27 now and then reports that its own time
// was over as a failure of the target (go.dev/issue/75804): only then, and if
// no failing input was written, the time was used up and nothing was found.
func fuzz(t *testing.T, root, folder, target, span string) (execs, outcome string) {
	cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+target+"$", "-fuzztime", span, "-timeout", "0", "./"+folder)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	execs = "0"
	if all := fuzzExecs.FindAllStringSubmatch(string(out), -1); len(all) > 0 {
		execs = all[len(all)-1][1]
	}
	switch text := string(out); {
	case err == nil:
		return execs, "nothing found"
	case strings.Contains(text, "\n    context deadline exceeded\n") && !strings.Contains(text, "Failing input written"):
		return execs, "nothing found, time ran out (go.dev/issue/75804)"
	}
	t.Errorf("%s", out)
	return execs, "FAILED"
}
