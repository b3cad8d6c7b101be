package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigFileFaultsAreToldByKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "banyan.yaml")
	text := `a: 1
http: {listn: 3, connection_age: soon}
limits:
  queue: many
  queue: 3
replicas:
- {name: r0, urll: http://x}
- 7
mesh: nonsense
isolate_by: [a]
log: {json: perhaps}
discovery: {dns: {x: y}}
grid: ~
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := loadConfig([]string{"--config", file, "--policy", "nosuch"}, nil, os.Stderr)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"\na: no such key (line 1)",
		"\nhttp.listn: no such key, did you mean listen? (line 2)",
		"\nhttp.connection_age: want a duration like 15s, not \"soon\" (line 2)",
		"\nlimits.queue: want a whole number, not \"many\" (line 4)",
		"\nlimits.queue: is there twice (line 5)",
		"\nreplicas[0].urll: no such key, did you mean url? (line 7)",
		"\nreplicas[1]: want a section of keys (line 8)",
		"\nmesh: want a section of keys (line 9)",
		"\nisolate_by: want a text, not a list (line 10)",
		"\nlog.json: want true or false, not \"perhaps\" (line 11)",
		"\ndiscovery.dns: want a list, not a section (line 12)",
		"\npolicy: ", // and what is wrong elsewhere
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not told: %q", want)
		}
	}
	if strings.Contains(err.Error(), "grid") {
		t.Error("a key without a value is a fault")
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestConfigFileThatIsNoYAML(t *testing.T) {
	file := filepath.Join(t.TempDir(), "banyan.yaml")
	for text, want := range map[string]string{
		"http: [":                 file + ": yaml: line 1",
		"- a\n- b":                "the document: want a section of keys (line 1)",
		"grid: 16\n---\ngrid: 32": "more than one YAML document",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadConfig([]string{"--config", file, "--insecure-mesh"}, nil, os.Stderr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
