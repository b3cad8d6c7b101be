package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router"
	"github.com/banyan-llm/banyan/router/fleet"
)

const root = "../.."

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources are the paths of all Go files. What tests and tools write beside them
// meanwhile is not looked at.
func sources(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "out" || strings.HasPrefix(d.Name(), ".") && path != root):
			return fs.SkipDir
		case filepath.Ext(path) == ".go":
			out = append(out, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil || len(out) < 300 {
		t.Fatalf("%d files, %v", len(out), err)
	}
	return out
}

// documents are the pages that are held for truth.
func documents(t *testing.T) []string {
	t.Helper()
	out := []string{"README.md", "deploy/README.md", "ARCHITECTURE.md"}
	for _, pattern := range []string{"*/DECISIONS.md", "*/*/DECISIONS.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			out = append(out, filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))))
		}
	}
	return out
}

// eachNamed calls f with what a pattern's first group finds in the documents. A
// pattern that finds nothing is a test that cannot fail.
func eachNamed(t *testing.T, pattern string, f func(doc, name string)) {
	t.Helper()
	seen := false
	for _, doc := range documents(t) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(document(t, doc), -1) {
			seen = true
			f(doc, m[1])
		}
	}
	if !seen {
		t.Errorf("no document has anything like %s", pattern)
	}
}

// help is what every command says of itself.
func help(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range commands() {
		if c.name == "version" {
			continue
		}
		var text bytes.Buffer
		if code := run(t.Context(), []string{c.name, "--help"}, &text, &text); code != exitOK || !strings.HasPrefix(text.String(), "usage: banyan "+c.name) {
			t.Errorf("banyan %s --help: exit code %d, %q", c.name, code, text.String())
		}
		out[c.name] = text.String()
	}
	return out
}

func TestDocumentsNameCommandsAndFlagsThatExist(t *testing.T) {
	helps := help(t)
	eachNamed(t, "banyan ((?:[a-z]+)(?: (?:[A-Z]+|--?[a-z-]+)[^`\n|;#&]*)?)", func(doc, line string) {
		name, _, _ := strings.Cut(line, " ")
		text, known := helps[name]
		if !known { // prose; or a part of the line is
			return
		}
		for _, m := range regexp.MustCompile(`(?:^|[ \[])--([a-z][a-z._-]*[a-z])`).FindAllStringSubmatch(line, -1) {
			if name == "sim" && m[1] == "faults" || m[1] == "help" {
				continue
			}
			if !strings.Contains(text, "  --"+m[1]) {
				t.Errorf("%s: banyan %s has no flag --%s", doc, name, m[1])
			}
		}
	})
	var all strings.Builder
	for _, text := range helps {
		all.WriteString(text)
	}
	eachNamed(t, "`--([a-z][a-z._-]*[a-z])", func(doc, flag string) {
		foreign := []string{"page-size", "enable-prompt-tokens-details", "no-enable-prefix-caching", "kv-events-config", "enable-scale-out", "chat-template", "served-model-name", "exclude-tools-when-tool-choice-none"} // the engines'
		if !slices.Contains(foreign, flag) && !strings.Contains(all.String(), "  --"+flag) {
			t.Errorf("%s: no command has a flag --%s", doc, flag)
		}
	})
}

// TestREADMETablesNameSettings: the first cell of each row of the tables under
// Configure is a setting, and each field of a replica is one.
func TestREADMETablesNameSettings(t *testing.T) {
	const head = "| key | default | meaning |\n|---|---|---|\n"
	tables := strings.Split(document(t, "README.md"), head)[1:]
	if len(tables) == 0 {
		t.Fatal("README.md has no table of settings")
	}
	cfg, known := router.DefaultConfig(), map[string]string{}
	for _, o := range options(&cfg) {
		known[o.key] = o.doc
	}
	for _, table := range tables {
		table, _, _ = strings.Cut(table, "\n\n")
		for row := range strings.Lines(table) {
			key, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
			if _, ok := known[key]; !ok {
				t.Errorf("README.md: no setting %s", key)
			}
		}
	}
	_, table, found := strings.Cut(document(t, "README.md"), "| field of a replica | meaning |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if !found {
		t.Fatal("README.md has no table of a replica's fields")
	}
	fields := reflect.TypeFor[fleet.Spec]()
	for row := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for name := range strings.SplitSeq(cell, ", ") {
			has := false
			for i := range fields.NumField() {
				tag, _, _ := strings.Cut(fields.Field(i).Tag.Get("yaml"), ",")
				has = has || "`"+tag+"`" == name
			}
			if !has {
				t.Errorf("README.md: a replica has no field %s", name)
			}
		}
	}
	eachNamed(t, "`((?:http|admin|mesh|discovery|auth|ingest|drain|limits|routing|admission|hedge|tracing|log)\\.[a-z_.]+[a-z])`", func(doc, key string) {
		if _, ok := known[key]; ok || key == "admin.keys" || key == "ingest.declare" { // a file, a function
			return
		}
		for other := range known { // a whole section
			if strings.HasPrefix(other, key+".") {
				return
			}
		}
		t.Errorf("%s: no setting %s", doc, key)
	})
}

func TestDocumentsNameFilesAndTargetsThatExist(t *testing.T) {
	goFiles := sources(t)
	eachNamed(t, `\b([a-z_/]+\.go)\b`, func(doc, name string) {
		if name != "doc.go" && !slices.ContainsFunc(goFiles, func(path string) bool { return strings.HasSuffix(path, "/"+name) }) {
			t.Errorf("%s: no file %s", doc, name)
		}
	})
	makefile := document(t, "Makefile")
	eachNamed(t, "(?m)(?:`|^)make ([a-z0-9-]+)", func(doc, target string) {
		if !strings.Contains(makefile, "\n"+target+":") {
			t.Errorf("%s: the Makefile has no target %s", doc, target)
		}
	})
	eachNamed(t, `\]\(([^)]+)\)`, func(doc, link string) {
		file, _, _ := strings.Cut(link, "#")
		if _, err := os.Stat(filepath.Join(root, filepath.Dir(doc), file)); file != "" && err != nil {
			t.Errorf("%s: %v", doc, err)
		}
	})
}

func TestDocumentsNameTestsThatExist(t *testing.T) {
	var all strings.Builder
	for _, path := range sources(t) {
		if strings.HasSuffix(path, "_test.go") {
			all.WriteString(document(t, strings.TrimPrefix(path, root+"/")))
		}
	}
	eachNamed(t, `\b((?:Test|Benchmark|Fuzz)[A-Z]\w+)`, func(doc, name string) {
		if !strings.Contains(all.String(), "\nfunc "+name+"(") {
			t.Errorf("%s: no test %s", doc, name)
		}
	})
}

// TestDocumentsNameCodeThatExists: of `package.Name` and `Type.Method` the last
// part is declared somewhere.
func TestDocumentsNameCodeThatExists(t *testing.T) {
	var all strings.Builder
	for _, path := range sources(t) {
		all.WriteString(document(t, strings.TrimPrefix(path, root+"/")))
	}
	declared := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |\t)([A-Za-z]\w*)\b`).FindAllStringSubmatch(all.String(), -1) {
		declared[m[1]] = true
	}
	eachNamed(t, "`(?:[A-Za-z]+\\.)+([A-Z][A-Za-z]+)`", func(doc, name string) {
		if !declared[name] {
			t.Errorf("%s: no %s in the code", doc, name)
		}
	})
}

// TestLinksWithinDocumentsLeadToHeadings: a heading's anchor is its text in
// lower case with hyphens for spaces and without punctuation.
func TestLinksWithinDocumentsLeadToHeadings(t *testing.T) {
	anchors := map[string]bool{}
	eachNamed(t, `(?m)^#{2,4} (.+)$`, func(doc, heading string) {
		slug := regexp.MustCompile("[^a-z0-9 _-]").ReplaceAllString(strings.ToLower(heading), "")
		anchors[doc+"#"+strings.ReplaceAll(slug, " ", "-")] = true
	})
	eachNamed(t, `\]\(([^)]*#[^)]+)\)`, func(doc, link string) {
		to := filepath.Join(filepath.Dir(doc), link)
		if strings.HasPrefix(link, "#") {
			to = doc + link
		}
		if !anchors[to] {
			t.Errorf("%s: no heading for %s", doc, link)
		}
	})
}
