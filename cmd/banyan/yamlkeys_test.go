package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
		"\nlimits.queue: appears twice (line 5)",
		"\nreplicas[0].urll: no such key, did you mean url? (line 7)",
		"\nreplicas[1]: must be a map of keys, as {key: value} (line 8)",
		"\nmesh: must be a map of keys, as {key: value} (line 9)",
		"\nisolate_by: want a text, not a list (line 10)",
		"\nlog.json: want true or false, not \"perhaps\" (line 11)",
		"\ndiscovery.dns: want a list, not a map (line 12)",
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
		"- a\n- b":                "the document: must be a map of keys, as {key: value} (line 1)",
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
		"right":   {"mesh: {insecure: true}\nreplicas: [{url: 'http://a:1'}]\n", exitOK, []string{"is valid", "No network address was checked"}},
		"wrong":   {"mesh: {insecure: true}\nhttp: {listn: 1}\n", exitUsage, []string{"http.listn: no such key"}},
		"a file":  {"mesh: {keyring: " + ring + "}\npolicy: nosuch\n", exitUsage, []string{"ring line 2: not base64", "policy: "}},
		"a pipe":  {"mesh: {insecure: true}\nauth: {keys_file: /dev/zero}\n", exitUsage, []string{"auth.keys_file: /dev/zero is not a regular file"}},
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

// validate refuses what serve refuses, in the same words, and all of it at once,
// by the keys that are wrong.
func TestValidateRefusesWhatServeRefuses(t *testing.T) {
	dir := t.TempDir()
	var quiet strings.Builder
	if code := run(t.Context(), []string{"keygen", "--mesh-certs", filepath.Join(dir, "certs")}, &quiet, &quiet); code != exitOK {
		t.Fatal(quiet.String())
	}
	cert, key, ca := filepath.Join(dir, "certs", "peer.pem"), filepath.Join(dir, "certs", "peer-key.pem"), filepath.Join(dir, "certs", "ca.pem")
	if found, _ := filepath.Glob(filepath.Join(dir, "certs", "*")); !slices.Contains(found, cert) || !slices.Contains(found, key) || !slices.Contains(found, ca) {
		t.Fatal(found)
	}
	short := filepath.Join(dir, "secret")
	if err := os.WriteFile(short, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	tls := func(cert, key, ca string) string {
		return "tls: {cert: " + cert + ", key: " + key + ", ca: " + ca + "}"
	}
	for name, c := range map[string]struct {
		mesh string
		more string
		says []string
	}{
		"mesh.key":               {"key: abc", "", []string{"mesh.key: not base64"}},
		"a short key":            {"key: c2hvcnQ=", "", []string{"mesh.key: "}},
		"hash_secret":            {"insecure: true, hash_secret: " + short, "", []string{"mesh.hash_secret: " + short + " holds 6 bytes"}},
		"a key that is none":     {"insecure: true, " + tls(cert, cert, ca), "", []string{"mesh.tls.key: "}},
		"a certificate of none":  {"insecure: true, " + tls(key, key, ca), "", []string{"mesh.tls.cert: "}},
		"no authority":           {"insecure: true, " + tls(cert, key, key), "", []string{"mesh.tls.ca: no certificate in"}},
		"no such key file":       {"insecure: true, " + tls(cert, key+"x", ca), "", []string{"mesh.tls.key: "}},
		"the listener's key":     {"insecure: true", "http: {tls: {cert: " + cert + ", key: " + cert + "}}\n", []string{"http.tls.key: "}},
		"a name with a space":    {"insecure: true, name: a b", "", []string{"mesh.name: "}},
		"a label that is long":   {"insecure: true, label: " + strings.Repeat("x", 300), "", []string{"mesh.label: "}},
		"a seed of two ports":    {"insecure: true, join: ['a:1:2']", "", []string{"mesh.join[0]: "}},
		"no folder for the log":  {"insecure: true", "access_log: {path: " + filepath.Join(dir, "none", "log") + "}\n", []string{"access_log.path: "}},
		"everything that can be": {"key: abc, hash_secret: " + short + ", " + tls(cert, cert, key), "policy: nosuch\n", []string{"mesh.key: ", "mesh.hash_secret: ", "mesh.tls.key: ", "mesh.tls.ca: ", "policy: "}},
	} {
		path := filepath.Join(dir, "banyan.yaml")
		text := "http: {listen: '127.0.0.1:0'}\nadmin: {listen: '127.0.0.1:0'}\nmesh: {bind: '127.0.0.1:0', " + c.mesh + "}\n" + c.more
		if strings.HasPrefix(c.more, "http:") {
			text = "admin: {listen: '127.0.0.1:0'}\nmesh: {bind: '127.0.0.1:0', " + c.mesh + "}\n" + c.more
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		told := map[string]string{}
		for command, args := range map[string][]string{"validate": {"validate", path}, "serve": {"serve", "--config", path}} {
			var out strings.Builder
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second) // a serve that starts ends
			if code := run(ctx, args, &out, &out); code != exitUsage {
				t.Errorf("%s: banyan %s ends with %d: %s", name, command, code, out.String())
			}
			stop()
			for _, says := range c.says {
				if !strings.Contains(out.String(), "\n  "+says) {
					t.Errorf("%s: banyan %s does not say %q: %s", name, command, says, out.String())
				}
			}
			_, told[command], _ = strings.Cut(out.String(), "\n")
		}
		if told["validate"] != told["serve"] {
			t.Errorf("%s: validate says\n%s\nserve says\n%s", name, told["validate"], told["serve"])
		}
	}
}
