package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureNamesTestsThatExist reads the table of properties: every row
// names tests, and every test named is in its package.
func TestArchitectureNamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) (\w+) \| (.*) \|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) != 28 {
		t.Fatalf("%d properties, want 28", len(rows))
	}
	for _, row := range rows {
		for part := range strings.SplitSeq(row[3], "; ") {
			folders, names, ok := strings.Cut(part, ": ")
			if !ok {
				t.Errorf("%s: %q names no package", row[2], part)
			}
			for folder := range strings.SplitSeq(folders, ", ") {
				source := testsOf(t, folder)
				for name := range strings.SplitSeq(names, ", ") {
					if !strings.Contains(source, "\nfunc "+name+"(") {
						t.Errorf("%s: package %s has no %s", row[2], folder, name)
					}
				}
			}
		}
	}
}

// testsOf is the text of a package's tests.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
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
