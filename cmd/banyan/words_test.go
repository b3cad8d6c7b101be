package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/simulation"
)

// What the command line says to whoever makes the commonest mistakes.
func TestMistakesAreAnsweredInTheirOwnWords(t *testing.T) {
	nofile := filepath.Join(t.TempDir(), "nofile")
	same := "[{url: 'http://10.0.0.1:8000', events: 'tcp://*:5557', replay: 'tcp://10.0.0.1:5557'}]"
	for name, c := range map[string]struct {
		args     []string
		code     int
		want     string
		mustNot  string
		wantNext string
	}{
		"no such file":      {[]string{"validate", nofile}, exitUsage, nofile + ": no such file", "--config", ""},
		"no key":            {[]string{"serve"}, exitUsage, "mesh.key: required, or a file of keys in mesh.keyring", "", ""},
		"one port twice":    {[]string{"serve", "--insecure-mesh", "--replicas", same}, exitUsage, "replicas[0].replay", "", "also the events endpoint"},
		"check and watch":   {[]string{"status", "--check", "--watch"}, exitUsage, "--check and --watch exclude each other", "", ""},
		"exit codes":        {[]string{"help"}, exitOK, "exit codes: 0", "", ""},
		"replicas are told": {[]string{"serve", "--help"}, exitOK, "--replicas", "", "Client listener"},
	} {
		var out bytes.Buffer
		code := run(t.Context(), c.args, &out, &out)
		if text := out.String(); code != c.code || !strings.Contains(text, c.want) || !strings.Contains(text, c.wantNext) || c.mustNot != "" && strings.Contains(text, c.mustNot) {
			t.Errorf("%s: exit code %d: %s", name, code, text)
		}
	}
}

// Lists in help texts are complete.
func TestHelpListsEveryPolicyAndFault(t *testing.T) {
	var serve, faults bytes.Buffer
	run(t.Context(), []string{"serve", "--help"}, &serve, &serve)
	run(t.Context(), []string{"sim", "--faults", "random", "--help"}, &faults, &faults)
	_, line, _ := strings.Cut(serve.String(), "routing policy: ")
	line, _, _ = strings.Cut(line, "(default")
	listed := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' })
	for _, name := range policy.Names() {
		if !slices.Contains(listed, name) {
			t.Errorf("serve --help does not list the policy %s: %s", name, line)
		}
	}
	for _, verb := range simulation.FaultVerbs() {
		if !strings.Contains(faults.String(), "\n    \t  "+verb+" ") {
			t.Errorf("sim --faults FILE --help has no word on %s", verb)
		}
	}
}

// A setting shows its default once, and only if it has one.
func TestHelpShowsDefaults(t *testing.T) {
	var out bytes.Buffer
	run(t.Context(), []string{"serve", "--help"}, &out, &out)
	for line, want := range map[string]bool{
		"(default -)": false, "(default )": false, "(default [])": false, "(default 0.000005)": true, "(default 33554432, 32 MiB)": true,
		"  --mesh.join list ": true, "  --drain.delay duration ": true,
	} {
		if strings.Contains(out.String(), line) != want {
			t.Errorf("serve --help has %q: %v", line, !want)
		}
	}
}
