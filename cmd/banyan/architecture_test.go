package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/simulation"
)

// TestArchitectureNamesEveryProperty: every row of the table of properties names
// tests, and those that the fault simulation checks have its names.
func TestArchitectureNamesEveryProperty(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| (\d+) (\w+) \| [^|]+ \| .*(?:Test|Fuzz).* \|$`).FindAllStringSubmatch(document(t, "ARCHITECTURE.md"), -1)
	if len(rows) != 28 {
		t.Fatalf("%d properties, want 28", len(rows))
	}
	for _, p := range simulation.Properties() {
		if got := rows[p.Number-1][2]; got != p.Name {
			t.Errorf("property %d is %s, the simulation calls it %s", p.Number, got, p.Name)
		}
	}
}

// TestArchitectureNamesTestsOfTheirPackages reads the last cell of every row of a
// table: parts between semicolons, each a list of packages, a colon and a list
// of tests, which are in all of these packages.
func TestArchitectureNamesTestsOfTheirPackages(t *testing.T) {
	test, seen := regexp.MustCompile(`^(?:Test|Fuzz)[A-Z]\w+$`), 0
	for row := range strings.Lines(document(t, "ARCHITECTURE.md")) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(row), " |"), " | ")
		if !strings.HasPrefix(row, "| ") {
			continue
		}
		for part := range strings.SplitSeq(cells[len(cells)-1], "; ") {
			folders, names, ok := strings.Cut(part, ": ")
			for name := range strings.SplitSeq(names, ", ") {
				if !ok || !test.MatchString(name) {
					continue
				}
				for folder := range strings.SplitSeq(folders, ", ") {
					if seen++; !strings.Contains(testsOf(t, folder), "\nfunc "+name+"(") {
						t.Errorf("package %s has no %s", folder, name)
					}
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d tests were found", seen)
	}
}

// helper reports whether a package is the simulation's or only for tests: the
// document leaves these out.
func helper(name string) bool {
	return name == "simulation" || strings.HasPrefix(name, "simulation/") || slices.Contains([]string{"crdt/crdttest", "gossip/gossiptest", "radix/workload"}, name)
}

// TestArchitectureShowsTheImportTable holds the document's table against allowed.
// Words in brackets explain; "router/*" is every package under router, and what
// follows "but" is taken out again.
func TestArchitectureShowsTheImportTable(t *testing.T) {
	_, table, _ := strings.Cut(document(t, "ARCHITECTURE.md"), "| package | may import |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	brackets, shown := regexp.MustCompile(` \([^)]*\)`), map[string][]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(brackets.ReplaceAllString(strings.Trim(row, "| \n"), ""), " | ")
		if len(cells) != 2 {
			t.Fatalf("a row of %d cells: %s", len(cells), row)
		}
		may, but, _ := strings.Cut(cells[1], " but ")
		var imports []string
		for name := range strings.SplitSeq(may, ", ") {
			folder, all := strings.CutSuffix(name, "*")
			switch {
			case name == "nothing":
			case all:
				for other := range allowed {
					if strings.HasPrefix(other, folder) && !slices.Contains(strings.Split(but, ", "), other) {
						imports = append(imports, other)
					}
				}
			default:
				imports = append(imports, name)
			}
		}
		for name := range strings.SplitSeq(cells[0], ", ") {
			shown[name] = imports
		}
	}
	for name, want := range allowed {
		got, ok := shown[name]
		if !ok && helper(name) {
			continue
		}
		if slices.Sort(got); !ok || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s may import %v; ARCHITECTURE.md (there: %v) says %v", name, want, ok, got)
		}
		delete(shown, name)
	}
	for name := range shown {
		t.Errorf("ARCHITECTURE.md has a row for %s, which is no package", name)
	}
}

// TestArchitectureNamesThePurePackages: a paragraph begins with their list.
func TestArchitectureNamesThePurePackages(t *testing.T) {
	_, list, _ := strings.Cut(document(t, "ARCHITECTURE.md"), "\n**Pure packages**: ")
	list, _, _ = strings.Cut(list, ".")
	got := strings.Split(strings.ReplaceAll(list, "`", ""), ", ")
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(pure)); !slices.Equal(got, want) {
		t.Errorf("ARCHITECTURE.md says %v, TestCorePackagesOpenNoSocket checks %v", got, want)
	}
}

// testsOf is the text of a package's tests, those behind build tags too.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d test files, %v", folder, len(files), err)
	}
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
