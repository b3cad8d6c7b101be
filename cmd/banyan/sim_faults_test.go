package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// schedule writes a faults file.
func schedule(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "faults")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSimFaultsReportsWhatHeld(t *testing.T) {
	file := schedule(t, "at=1s for=2s cut a b\nat=2s restart r0\nat=3s kill c # for good\n")
	args := []string{"sim", "--faults", file, "--seed", "5", "--peers", "3", "--replicas", "2", "--duration", "5s"}
	code, out, errs := played(args...)
	if code != exitOK || !strings.Contains(out, "every property held") || !strings.Contains(out, "at=1s for=2s cut a b") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = played(append(args, "--json")...)
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK {
		t.Fatalf("exit %d, not one JSON object (%v): %s%s", code, err, out, errs)
	}
	if got["seed"] != 5.0 || got["peers"] != 2.0 || got["converged"] != true || len(got["violations"].([]any)) != 0 {
		t.Errorf("reported %v", got)
	}
}

func TestSimFaultsFailsWithTheTrace(t *testing.T) {
	file := schedule(t, "at=1s cut a b\n")
	code, out, errs := played("sim", "--faults="+file, "--peers", "2", "--replicas", "1", "--duration", "3s", "--bound", "1ms")
	if code != exitFailed || !strings.Contains(out, "FAILED ConvergenceBound") {
		t.Errorf("exit %d: %s", code, out)
	}
	if !regexp.MustCompile(`names process \d+ of \S+ epoch \d+`).MatchString(errs) {
		t.Errorf("no trace: %s", errs)
	}
	_, again, ok := strings.Cut(errs, "again: banyan ")
	if !ok {
		t.Fatalf("no way to play it again: %s", errs)
	}
	code, out, errs = played(append(strings.Fields(again), "--bound", "1ms")...)
	if code != exitFailed || !strings.Contains(out, "FAILED ConvergenceBound") || !strings.Contains(errs, "0.000 a    starts") {
		t.Errorf("played again: exit %d: %s%s", code, out, errs)
	}
}

func TestSimFaultsRefusesBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"at=1s cut a b\nfly r0": `line 2: unknown fault "fly"`,
		"kill f":                "no peer f among 4",
	} {
		if code, _, errs := played("sim", "--faults", schedule(t, text)); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d: %s", text, code, errs)
		}
	}
	if code, _, _ := played("sim", "--faults", filepath.Join(t.TempDir(), "none")); code != exitUsage {
		t.Errorf("exit %d without the file", code)
	}
}

func TestSimMeshUnderFaults(t *testing.T) {
	file := schedule(t, "at=3s for=2s cut a b\nat=4s kill c\nat=6s restart r0\n")
	args := []string{"sim", "--workload", "multi_turn", "--requests", "100", "--rate", "8", "--peers", "3", "--replicas", "2", "--faults", file}
	code, out, errs := played(args...)
	if code != exitOK || !strings.Contains(out, "every property held") || !strings.Contains(out, "at=4s kill c") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = played(append(args, "--json")...)
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK {
		t.Fatalf("exit %d, not one JSON object (%v): %s%s", code, err, out, errs)
	}
	for _, key := range []string{"trace", "policy", "completed", "hit_ratio", "ttft_ms", "gossip_bytes", "failed", "in_flight_lost", "mesh", "seed"} {
		if got[key] == nil {
			t.Errorf("no %s in %v", key, got)
		}
	}
	if got["gossip_bytes"] == 0.0 || got["requests"].(float64) < 100 {
		t.Errorf("%v requests, %v bytes of gossip", got["requests"], got["gossip_bytes"])
	}
	if code, _, errs := played("sim", "--mesh", "--policy", "pooled"); code != exitUsage || !strings.Contains(errs, "no mesh") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := played("sim", "--mesh", "--faults", schedule(t, "kill z")); code != exitUsage || !strings.Contains(errs, "no peer z") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
