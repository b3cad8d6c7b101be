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
		"a: no such key (line 1)\n", // the first one: no line that names the file alone
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

// A file that is no YAML is one fault: what it meant to say is not missing.
func TestAFileThatIsNoYAMLIsOneFault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "banyan.yaml")
	if err := os.WriteFile(file, []byte("mesh: {key: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(t.TempDir(), "none.yaml")} {
		if _, err := loadConfig([]string{"--config", path}, nil, os.Stderr); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("want one fault: %v", err)
		}
	}
}

// validate says what serve would, starts nothing and ends with serve's exit
// code.
func TestValidate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ring := write("ring", "# a comment\nnot a key\n")
	for name, c := range map[string]struct {
		text string
		code int
		says []string
	}{
		"right":   {"mesh: {insecure: true}\nreplicas: [{url: 'http://a:1'}]\n", exitOK, []string{"is right", "No address was tried"}},
		"wrong":   {"mesh: {insecure: true}\nhttp: {listn: 1}\n", exitUsage, []string{"http.listn: no such key"}},
		"a file":  {"mesh: {keyring: " + ring + "}\npolicy: nosuch\n", exitUsage, []string{"ring line 2: not base64", "policy: "}},
		"a pipe":  {"mesh: {insecure: true}\nauth: {keys_file: /dev/zero}\n", exitUsage, []string{"auth.keys_file: /dev/zero is no regular file"}},
		"no such": {"", exitUsage, []string{"name the configuration file"}},
	} {
		args := []string{"validate"}
		if c.text != "" {
			args = append(args, write("banyan.yaml", c.text))
		}
		var out strings.Builder
		if code := run(t.Context(), args, &out, &out); code != c.code {
			t.Errorf("%s: exit code %d: %s", name, code, out.String())
		}
		for _, says := range c.says {
			if !strings.Contains(out.String(), says) {
				t.Errorf("%s: no %q in %s", name, says, out.String())
			}
		}
	}
}

func TestCommandsThatAreMisspelt(t *testing.T) {
	var out strings.Builder
	if code := run(t.Context(), []string{"stat"}, &out, &out); code != exitUsage || !strings.Contains(out.String(), "did you mean status?") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	out.Reset()
	if code := run(t.Context(), []string{"--version"}, &out, &out); code != exitOK || out.String() != "banyan "+version+"\n" {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
