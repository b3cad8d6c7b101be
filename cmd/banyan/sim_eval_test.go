package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// played runs the command line and returns its exit code and outputs.
func played(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// misuse is a command line and what must be said of it.
type misuse struct {
	args []string
	want []string
}

// tellsFaults holds that a command refuses each with exit code 2, on stderr.
func tellsFaults(t *testing.T, command string, cases []misuse) {
	t.Helper()
	for _, c := range cases {
		code, out, errs := played(append([]string{command}, c.args...)...)
		if code != exitUsage || out != "" {
			t.Errorf("%v: exit %d, stdout %q", c.args, code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%v: no %q in %q", c.args, want, errs)
			}
		}
	}
}

func TestSimPrintsTheContractsNames(t *testing.T) {
	code, out, errs := played("sim", "--workload", "multi_turn", "--requests", "100", "--peers", "3", "--json")
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("not one JSON object: %v", err)
	}
	for _, name := range []string{
		"trace", "policy", "peers", "replicas", "requests", "completed", "hit_ratio", "ideal_hit_ratio", "follow_up_cached",
		"same_replica", "ttft_ms", "tpot_ms", "output_tokens_per_s", "load_cv", "recomputed_tokens", "gossip_bytes", "view_age_ms",
		"seed", "trace_hash",
	} {
		if _, ok := got[name]; !ok {
			t.Errorf("no %s in %s", name, out)
		}
	}
	var ttft map[string]float64
	if err := json.Unmarshal(got["ttft_ms"], &ttft); err != nil || !(ttft["mean"] > 0 && ttft["p50"] > 0 && ttft["p90"] > 0 && ttft["p99"] > 0) {
		t.Errorf("ttft_ms is %s (%v)", got["ttft_ms"], err)
	}
	if _, again, _ := played("sim", "--workload", "multi_turn", "--requests", "100", "--peers", "3", "--json"); again != out {
		t.Error("E1: the same command printed something else")
	}
}

func TestSimComparesAllPolicies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	code, out, errs := played("sim", "--workload", "few_prefixes", "--requests", "60", "--policy", "all", "--out", dir)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, name := range []string{"random", "cache_aware", "ttft", "pooled"} {
		if !strings.Contains(out, "\n  "+name+" ") {
			t.Errorf("no line for %s in:\n%s", name, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "sim.json"))
	var doc struct{ Runs []struct{ Policy string } }
	if err != nil || json.Unmarshal(text, &doc) != nil || len(doc.Runs) != 12 {
		t.Errorf("sim.json: %v, %d runs", err, len(doc.Runs))
	}
	if table, err := os.ReadFile(filepath.Join(dir, "sim.txt")); err != nil || string(table) != out {
		t.Errorf("sim.txt differs from what was printed (%v)", err)
	}
}

func TestSimNamesEveryFault(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "bad.jsonl")
	good := `{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [0, 1]}` + "\n"
	if err := os.WriteFile(trace, []byte(good+good+"{]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tellsFaults(t, "sim", []misuse{
		{[]string{"--trace", trace}, []string{"bad.jsonl", "line 3"}},
		{[]string{"--trace", trace + "x"}, []string{"no such file"}},
		{[]string{"--workload", "nothing"}, []string{"nothing", "multi_turn"}},
		{[]string{"--policy", "best", "--peers", "-1"}, []string{"best", "peers"}},
		{[]string{"--workload", "nothing", "--policy", "best,worst", "--peers", "-1", "--requests", "-2"}, []string{"nothing", "best", "worst", "peers", "requests"}},
		{[]string{"--mesh", "--workload", "nothing", "--policy", "best", "--peers", "-1"}, []string{"nothing", "best", "peers"}},
		{[]string{"--rate", "-3"}, []string{"rate"}},
		{[]string{"--rate", "3", "--load", "0.5"}, []string{"either"}},
		{[]string{"--workload", "burst", "--rate", "3"}, []string{"at once"}},
		{[]string{"--profile", "tpu"}, []string{"tpu"}},
		{[]string{"--requests", "-3"}, []string{"requests"}},
		{[]string{"--load-delay", "-1s"}, []string{"load_delay"}},
		{[]string{"extra"}, []string{"extra"}},
	})
}

// TestSimSaysWhatItChangedOfATrace: stamps on a grid are spread, and nobody has
// to guess that.
func TestSimSaysWhatItChangedOfATrace(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "grid.jsonl")
	text := `{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [0]}
{"timestamp": 3000, "input_length": 512, "output_length": 1, "hash_ids": [1]}
`
	if err := os.WriteFile(trace, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "2 of 2 stamps lie on a grid of 3 s and were spread over it"
	for _, args := range [][]string{{"sim", "--trace", trace}, {"sim", "--trace", trace, "--json"}} {
		if code, out, errs := played(args...); code != exitOK || !strings.Contains(out, want) {
			t.Errorf("%v: exit %d, no %q in %s%s", args, code, want, out, errs)
		}
	}
}
