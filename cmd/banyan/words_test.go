package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
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
		"replicas are told": {[]string{"serve", "--help"}, exitOK, "--replicas", "", "Listener of clients"},
	} {
		var out bytes.Buffer
		code := run(t.Context(), c.args, &out, &out)
		if text := out.String(); code != c.code || !strings.Contains(text, c.want) || !strings.Contains(text, c.wantNext) || c.mustNot != "" && strings.Contains(text, c.mustNot) {
			t.Errorf("%s: exit code %d: %s", name, code, text)
		}
	}
}
