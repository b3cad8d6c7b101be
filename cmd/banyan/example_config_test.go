package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/banyan-llm/banyan/router"
)

const exampleConfig = "../../deploy/banyan.yaml"

func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), append([]string{"serve", "--insecure-mesh", "--print-config"}, args...), &out, &errs); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.String()
}

// The example shows the defaults, so that a line taken out of it changes
// nothing.
func TestExampleConfigHoldsTheDefaults(t *testing.T) {
	want, got := strings.Split(printed(t), "\n"), strings.Split(printed(t, "--config", exampleConfig), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("deploy/banyan.yaml differs from the defaults:\n%q\n%q", want[i:], got[i:])
		}
	}
}

func TestExampleConfigNamesEverySetting(t *testing.T) {
	data, err := os.ReadFile(exampleConfig)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	cfg := router.DefaultConfig()
	opts := options(&cfg)
	for _, o := range opts {
		if !hasKey(file, o.key) {
			t.Errorf("deploy/banyan.yaml does not show %s (%s)", o.key, o.doc)
		}
	}
	if len(opts) < 40 {
		t.Errorf("only %d settings were looked for", len(opts))
	}
}

func hasKey(node any, key string) bool {
	for part := range strings.SplitSeq(key, ".") {
		section, ok := node.(map[string]any)
		if !ok {
			return false
		}
		if node, ok = section[part]; !ok {
			return false
		}
	}
	return true
}

// The commented replica of the example is one that the peer takes.
func TestExampleReplicaIsValid(t *testing.T) {
	data, err := os.ReadFile(exampleConfig)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "replicas: []\n")
	block, _, _ := strings.Cut(rest, "\n\n")
	text := strings.ReplaceAll("\n"+block, "\n# ", "\n")
	l, err := loadConfig([]string{"--insecure-mesh", "--config", writeFile(t, text)}, nil, &bytes.Buffer{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(l.cfg.Replicas) != 1 || l.cfg.Replicas[0].Labels["zone"] != "a" {
		t.Errorf("read %+v", l.cfg.Replicas)
	}
}

// eachDeployedLine calls f with every line of deploy/ that is no comment.
func eachDeployedLine(t *testing.T, f func(path, line string)) {
	t.Helper()
	err := filepath.WalkDir("../../deploy", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".service", ".tpl"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				f(path, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A peer refuses variables it does not know, so a wrong one in a manifest is a
// peer that does not start.
func TestDeploySetsOnlyKnownVariables(t *testing.T) {
	cfg, known := router.DefaultConfig(), map[string]bool{}
	for _, o := range options(&cfg) {
		known[o.env()] = true
	}
	for _, name := range clientVariables {
		known[name] = true
	}
	variable, seen := regexp.MustCompile(`BANYAN_[A-Z_]+`), 0
	eachDeployedLine(t, func(path, line string) {
		for _, name := range variable.FindAllString(line, -1) {
			if seen++; !known[name] {
				t.Errorf("%s: no such setting %s", path, name)
			}
		}
	})
	if seen < 15 {
		t.Errorf("only %d variables were found", seen)
	}
}

// The peer's part of compose.yaml is a configuration that a peer takes.
func TestComposeConfigIsValid(t *testing.T) {
	var file struct {
		Configs map[string]struct{ Content string }
	}
	data, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	key := writeFile(t, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
	text := strings.Replace(file.Configs["peer"].Content, "/run/secrets/mesh_key", key, 1)
	l, err := loadConfig([]string{"--config", writeFile(t, text)}, nil, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.cfg.Replicas) != 4 || l.cfg.Mesh.Keyring != key || l.cfg.Mesh.Join[0] != "banyan:7946" {
		t.Errorf("read %+v", l.cfg)
	}
}
