package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mutant is one deliberate bug and the test that must notice it. Listed are
// those that break a rule of the protocol or of the tree, those that no test
// noticed once, and bugs that the product once had; the field why says which.
// All others are a mutation tool's (make mutate).
//
// The lists lie beside the code as testdata/mutants.txt: blocks between lines of
// three dashes, in each the fields
//
//	name     what is broken, in words
//	why      the rule it breaks, or the bug that was, in a sentence
//	file     from the root, or from the folder of the list
//	test     for go test -run: at least one of these must fail
//	package  folder of the tests, if not the file's
//	args     for the test binary, if any
//	old      the text to replace, found once in the file
//	new      what stands there instead
//
// with the lines of the last two indented by one tab or four spaces.
type mutant struct {
	name, why, file, test, old, new string
	tested, args                    string // package folder; flags behind -args
	group                           string // folder of the list
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
			case name == "why":
				m.why = strings.TrimSpace(value)
			case name == "file":
				m.file = strings.TrimSpace(value)
			case name == "test":
				m.test = strings.TrimSpace(value)
			case name == "package":
				m.tested = strings.TrimSpace(value)
			case name == "args":
				m.args = strings.TrimSpace(value)
			case name == "old" || name == "new":
				field = name
			case field != "":
				body[field].WriteString(line + "\n")
			case len(out) > 0 || m.name != "": // the first block may begin with prose
				return nil, fmt.Errorf("line %q is not understood", line)
			}
		}
		switch {
		case m.name == "":
			continue
		case m.why == "":
			return nil, fmt.Errorf("%q does not say why it is listed", m.name)
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

// mutants reads all lists.
func mutants(t *testing.T, root string) (all []mutant) {
	t.Helper()
	for _, file := range mutantFiles(t, root) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, err := parseMutants(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		group, err := filepath.Rel(root, filepath.Dir(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			m.group = group
			if !strings.Contains(m.file, "/") {
				m.file = filepath.Join(group, m.file)
			}
			if m.tested == "" {
				m.tested = filepath.Dir(m.file)
			}
			all = append(all, m)
		}
	}
	return all
}

func TestParseMutants(t *testing.T) {
	list, err := parseMutants(`# A head.
---
name: a bug
why: it was there once
file: a.go
test: TestA
args: -seeds 2
old:
	if a {
		b()
new:
    if false {
---
name: another
why: a rule of the protocol
old:
	x
`)
	want := []mutant{
		{name: "a bug", why: "it was there once", file: "a.go", test: "TestA", args: "-seeds 2", old: "if a {\n\tb()", new: "if false {"},
		{name: "another", why: "a rule of the protocol", old: "x"},
	}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("%+v, %v", list, err)
	}
	for text, says := range map[string]string{
		"name: a bug\nfile: a.go\nold:\n\tx\n":         "does not say why",
		"name: a bug\nwhy:\nold:\n\tx\n":               "does not say why",
		"name: a bug\nwhy: it was\nbecause: of that\n": "not understood",
	} {
		if _, err := parseMutants(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// TestMutantsApply: each deliberate bug is one that the code of today can have,
// and its test exists. `make mutants` runs them.
func TestMutantsApply(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants(t, root) {
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s, %q: %v", m.group, m.name, err)
		} else if n := strings.Count(string(source), m.old); n != 1 {
			t.Errorf("%s, %q: its text occurs %d times in %s", m.group, m.name, n, m.file)
		}
		if m.old == m.new {
			t.Errorf("%s, %q changes nothing", m.group, m.name)
		}
		tests, err := filepath.Glob(filepath.Join(root, m.tested, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, path := range tests {
			body, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range testName.FindAllSubmatch(body, -1) {
				for part := range strings.SplitSeq(m.test, "|") {
					part, _, _ = strings.Cut(part, "/")
					found = found || regexp.MustCompile(strings.Trim(part, "()")).Match(name[1])
				}
			}
		}
		if !found {
			t.Errorf("%s, %q: package %s has no test %s", m.group, m.name, m.tested, m.test)
		}
	}
}
