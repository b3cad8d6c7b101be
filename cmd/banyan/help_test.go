package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// Help that was asked for is what a command prints, so that it can be searched
// and paged; what is wrong stays on stderr.
func TestHelpThatWasAskedForIsOnStdout(t *testing.T) {
	for _, c := range commands() {
		for _, args := range [][]string{{c.name, "--help"}, {c.name, "-h"}, {"help", c.name}} {
			var out, errs bytes.Buffer
			if code := run(t.Context(), args, &out, &errs); code != exitOK || !strings.HasPrefix(out.String(), "usage: banyan "+c.name) || errs.Len() > 0 {
				t.Errorf("banyan %v: exit code %d, stdout %.60q, stderr %.60q", args, code, out.String(), errs.String())
			}
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{c.name, "--nosuch"}, &out, &errs); code != exitUsage || out.Len() > 0 || !strings.Contains(errs.String(), "--nosuch") {
			t.Errorf("banyan %s --nosuch: exit code %d, stdout %q, stderr %q", c.name, code, out.String(), errs.String())
		}
	}
}

// validate has the same help whichever way it is asked for, also behind a file.
func TestHelpOfValidate(t *testing.T) {
	for _, args := range [][]string{{"validate", "--help"}, {"validate", "-h"}, {"help", "validate"}, {"validate", "banyan.yaml", "--help"}, {"validate", "--policy", "ttft", "-h"}} {
		var out, errs bytes.Buffer
		code := run(t.Context(), args, &out, &errs)
		for _, says := range []string{"usage: banyan validate FILE", "\n  FILE ", "banyan serve --help"} {
			if code != exitOK || !strings.Contains(out.String(), says) || errs.Len() > 0 {
				t.Errorf("banyan %v: exit code %d, no %q in %s%s", args, code, says, &out, &errs)
			}
		}
	}
}

// serve names the kind of every value and its default as people write them.
func TestHelpOfServeShowsKindsAndDefaults(t *testing.T) {
	var out bytes.Buffer
	run(t.Context(), []string{"serve", "--help"}, &out, &out)
	text := out.String()
	for _, pattern := range []string{
		`--limits.body_bytes int +.*\(default 33554432, 32 MiB\)`,
		`--limits.body_time duration +.*\(default 1m0s\)`,
		`--routing.tiers.cpu float +.*\(default 0\.000005\)`,
		`--mesh.join list +`,
		`--admission.key_classes map +`,
		`--mesh.insecure  +`,
		`--mesh.label string +.*\(default banyan\)`,
		`--config file +`,
	} {
		if !regexp.MustCompile(`(?m)^  ` + pattern).MatchString(text) {
			t.Errorf("no line like %s", pattern)
		}
	}
	if strings.Contains(text, "(default -)") || strings.Contains(text, "(default )") {
		t.Error("a setting without a default shows one")
	}
}
