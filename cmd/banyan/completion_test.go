package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The script completes commands, and the flags that the program's help names.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped: bash is not installed")
	}
	var script, help bytes.Buffer
	if code := run(t.Context(), []string{"completion", "bash"}, &script, &script); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &script)
	}
	run(t.Context(), []string{"status", "--help"}, &help, &help)
	dir := t.TempDir()
	// A program that answers the question as banyan does.
	if err := os.WriteFile(filepath.Join(dir, "help.txt"), help.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "banyan"), []byte("#!/bin/sh\ncat "+dir+"/help.txt >&2\n"), 0o700); err != nil { //nolint:gosec // to be run
		t.Fatal(err)
	}
	complete := func(words string, at int) string {
		cmd := exec.Command(bash, "-c", script.String()+"\nCOMP_WORDS=("+words+"); COMP_CWORD="+string(rune('0'+at))+"; _banyan; echo ${COMPREPLY[@]}")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := complete("banyan va", 1); got != "validate" {
		t.Errorf("va: %q", got)
	}
	if got := complete("banyan status --wa", 2); got != "--wait --watch" {
		t.Errorf("--wa: %q", got)
	}
}

func TestCompletionNamesItsShells(t *testing.T) {
	for _, args := range [][]string{{"completion"}, {"completion", "csh"}} {
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, &out); code != exitUsage || !strings.Contains(out.String(), "bash, zsh or fish") {
			t.Errorf("%v: exit code %d: %s", args, code, &out)
		}
	}
	for _, shell := range []string{"zsh", "fish"} {
		var out bytes.Buffer
		if code := run(t.Context(), []string{"completion", shell}, &out, &out); code != exitOK || !strings.Contains(out.String(), "validate") {
			t.Errorf("%s: exit code %d: %s", shell, code, &out)
		}
	}
}
