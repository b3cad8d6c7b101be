package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "banyan.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedenceIsDefaultFileEnvironmentFlag(t *testing.T) {
	path := writeFile(t, "mesh: {insecure: true, name: file, label: file}\npolicy: random\ndrain: {delay: 1s}\n")
	env := []string{"BANYAN_MESH_NAME=env", "BANYAN_POLICY=prefix", "PATH=/bin"}
	l, err := loadConfig([]string{"--config", path, "--policy", "cost", "--mesh.join", "a:1, b:2"}, env, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	c := l.cfg
	if c.Grid != 16 || c.Mesh.Label != "file" || c.Mesh.Name != "env" || c.Policy != "cost" || c.Drain.Delay != time.Second {
		t.Errorf("grid %d label %q name %q policy %q delay %v", c.Grid, c.Mesh.Label, c.Mesh.Name, c.Policy, c.Drain.Delay)
	}
	if len(c.Mesh.Join) != 2 || c.Mesh.Join[1] != "b:2" {
		t.Errorf("seeds %q", c.Mesh.Join)
	}
}

func TestAllFaultsAreReportedAtOnceByKey(t *testing.T) {
	path := writeFile(t, "polcy: ttft\nmesh: {joni: [a]}\nreplicas: [{url: nonsense}]\n")
	_, err := loadConfig([]string{"--config", path, "--grid", "many", "--http.listen", "nowhere", "--drain.delay", "soon"},
		[]string{"BANYAN_POLICI=random"}, &bytes.Buffer{})
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{"polcy", "joni", "grid", "http.listen", "drain.delay", "BANYAN_POLICI", "did you mean BANYAN_POLICY", "mesh.key", "banyan keygen"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

// A value out of range is told by its whole key, with the line it stands in
// unless something stronger than the file says it.
func TestValuesOutOfRangeAreToldWithTheirLine(t *testing.T) {
	path := writeFile(t, `mesh: {insecure: true}
policy: foo
grid: 0
routing:
  disaggregate: {mode: sometimes, tokens: -3}
limits: {retries: -1, queue: -2}
replicas:
- {name: a, url: "http://h:1/v1"}
- name: b
  url: "http://me:secret@h:2"
  events: "tcp://h"
- {name: c, url: "http://h:3?x=1", replay: "h:1"}
`)
	_, err := loadConfig([]string{"--config", path, "--limits.queue", "-5"}, []string{"BANYAN_GRID=-1"}, &bytes.Buffer{})
	if err == nil {
		t.Fatal("no fault found")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, want := range []string{
		`policy: "foo" is not one of`, `routing.disaggregate.mode: "sometimes"`, "routing.disaggregate.tokens: must be 0 or more, not -3", "limits.retries: must be 0 or more, not -1 (line 6)",
		"limits.queue: must be 0 or more, not -5", "grid: -1", `ends in /v1: give what stands before it (line 8)`, "replicas[1].url: holds a user or password",
		`replicas[1].events: "tcp://h" is not tcp://host:port (line 11)`, "replicas[2].url: ", "replicas[2].replay: ",
	} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	for _, line := range lines {
		fromFile := !strings.HasPrefix(line, "limits.queue:") && !strings.HasPrefix(line, "grid:")
		if strings.Contains(line, "(line ") != fromFile || strings.Contains(line, "secret") {
			t.Errorf("%q", line)
		}
	}
}

func TestPrintConfigMasksSecretsAndIsReadBack(t *testing.T) {
	key := "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	path := writeFile(t, "mesh: {key: "+key+"}\nreplicas: [{url: 'http://r:1', credentials: hush}]\n")
	l, err := loadConfig([]string{"--config", path}, nil, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printConfig(&out, l.cfg); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, key) || strings.Contains(text, "hush") || !strings.Contains(text, masked) {
		t.Errorf("secrets are not masked:\n%s", text)
	}
	if l.cfg.Replicas[0].Credentials != "hush" {
		t.Error("masking changed the configuration itself")
	}
	again := writeFile(t, strings.ReplaceAll(out.String(), masked, key))
	if _, err := loadConfig([]string{"--config", again}, nil, &bytes.Buffer{}); err != nil {
		t.Errorf("the printed configuration is not read back: %v", err)
	}
}

func TestEverySettingHasAFlagAnEnvironmentVariableAndADescription(t *testing.T) {
	l := loaded{}
	for _, o := range options(&l.cfg) {
		if o.doc == "" && o.key != "replicas" {
			t.Errorf("%s has no description", o.key)
		}
		if !strings.HasPrefix(o.env(), "BANYAN_") || strings.ContainsAny(o.env(), ".-") {
			t.Errorf("%s has the environment variable %s", o.key, o.env())
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		out  string // part of stdout
		err  string // part of stderr
	}{
		{[]string{}, exitUsage, "banyan serve", ""},
		{[]string{"--help"}, exitOK, "banyan demo", ""},
		{[]string{"version"}, exitOK, "banyan", ""},
		{[]string{"srve"}, exitUsage, "", `no command "srve"`},
		{[]string{"serve"}, exitUsage, "", "mesh.key"},
		{[]string{"serve", "--nope"}, exitUsage, "", "nope"},
		{[]string{"serve", "--insecure-mesh", "extra"}, exitUsage, "", "unexpected argument"},
		{[]string{"status", "127.0.0.1:8081"}, exitUsage, "", `unexpected argument "127.0.0.1:8081": did you mean --peer 127.0.0.1:8081?`},
		{[]string{"status", "twice"}, exitUsage, "", `unexpected argument "twice": every setting is a flag, see banyan status --help`},
		{[]string{"demo", "3"}, exitUsage, "", "unexpected argument"},
		{[]string{"keygen", "ann"}, exitUsage, "", "unexpected argument"},
		{[]string{"serve", "--config", "/does/not/exist.yaml"}, exitUsage, "", "exist.yaml"},
		{[]string{"demo", "--peers", "1"}, exitUsage, "", "--peers"},
		{[]string{"replica", "--layout", "xml"}, exitUsage, "", "layout"},
		{[]string{"status", "--peer", "127.0.0.1:1"}, exitFailed, "", "is a peer running there"},
		{[]string{"drain"}, exitUsage, "", "name one replica"},
		{[]string{"help", "load"}, exitOK, "usage: banyan load --url URL", ""},
		{[]string{"version", "--json"}, exitUsage, "", "no such flag: --json"},
		{[]string{"version", "x"}, exitUsage, "", "unexpected argument"},
		{[]string{"keygen", "--client", "a", "--admin", "b"}, exitUsage, "", "--client, --admin: one key"},
		{[]string{"keygen", "--client", "a", "--read-only"}, exitUsage, "", "--read-only with --admin"},
		{[]string{"status", "--wait", "1s"}, exitUsage, "", "--wait goes with --check"},
		{[]string{"sim", "--cells", "--seeds", "0"}, exitUsage, "", "seeds: 0"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), tc.args, &out, &errs); code != tc.code {
			t.Errorf("%q: exit code %d, want %d (%s)", tc.args, code, tc.code, errs.String())
		}
		if !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.err) {
			t.Errorf("%q: stdout %q, stderr %q", tc.args, out.String(), errs.String())
		}
	}
}

// All faults of a command line are told at once, as flags are written.
func TestEveryFaultOfACommandLineIsTold(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{
			[]string{"serve", "--nope", "3", "--grid", "x", "--polcy=ttft", "---y", "--policy", "foo", "--drain.delay"},
			[]string{"no such flag: --nope\n", "no such flag: --polcy, did you mean --policy?", "bad flag syntax: ---y", "needs an argument: --drain.delay", "grid: ", `"foo"`, "mesh.key", "see banyan serve --help"},
		},
		{[]string{"serve", "--join", "a:1", "--listen", ":1", "--insecure-msh"}, []string{"--join, did you mean --mesh.join?", "--listen\n", "did you mean --insecure-mesh?"}},
		{[]string{"status", "--pere", "x"}, []string{"no such flag: --pere, did you mean --peer?"}},
		{[]string{"demo", "--peers", "x", "--seed", "y"}, []string{"for flag --peers", "for flag --seed"}},
		{
			[]string{"replica", "--engine", "foo", "--profile", "nope", "--blocks", "-1", "--block-size", "-1", "--max-num-seqs", "-1", "--rank", "-1", "--listen", "x"},
			[]string{"\n  engine: ", "profile: ", "\n  blocks: ", "block-size: ", "max-num-seqs: ", "\n  rank: ", "listen: "},
		},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), tc.args, &out, &errs)
		if code != exitUsage || out.Len() > 0 {
			t.Errorf("%q: exit code %d, stdout %q", tc.args, code, out.String())
		}
		for _, want := range tc.want {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%q: no %q in\n%s", tc.args, want, errs.String())
			}
		}
	}
}

func TestPortInUseIsAClearError(t *testing.T) {
	first, errs := &bytes.Buffer{}, &bytes.Buffer{}
	l := listenLoopback(t)
	code := run(t.Context(), []string{
		"serve", "--insecure-mesh", "--http.listen", l, "--admin.listen", "127.0.0.1:0", "--mesh.bind", "127.0.0.1:0", "--log.level", "error",
	}, first, errs)
	if code != exitFailed || !strings.Contains(errs.String(), "http.listen") || !strings.Contains(errs.String(), "in use") {
		t.Errorf("exit code %d, stderr %q", code, errs.String())
	}
	errs.Reset()
	code = run(t.Context(), []string{
		"serve", "--insecure-mesh", "--http.listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", "--mesh.bind", l, "--log.level", "error",
	}, first, errs)
	if code != exitFailed || !strings.Contains(errs.String(), "mesh.bind") || !strings.Contains(errs.String(), "in use (set a different address") {
		t.Errorf("exit code %d, stderr %q", code, errs.String())
	}
}
