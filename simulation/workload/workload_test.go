package workload

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
)

func traceDir(t *testing.T) string {
	for _, dir := range []string{os.Getenv("BANYAN_TRACES"), "../../../shared/traces"} {
		if dir == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "mooncake_conversation.jsonl")); !errors.Is(err, fs.ErrNotExist) {
			return dir
		}
	}
	t.Skip("no traces: set BANYAN_TRACES to their directory")
	return ""
}

func TestIdealHitOfGivenTraces(t *testing.T) {
	dir := traceDir(t)
	for name, want := range map[string]float64{
		"mooncake_conversation": .3577, "mooncake_synthetic": .4536, "agent_sessions": .8949,
	} {
		w, err := ReadFile(filepath.Join(dir, name+".jsonl"), 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.IdealHit(); math.Abs(got-want) > .00005 {
			t.Errorf("%s: ideal hit %.4f, want %.4f", name, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range Names() {
		w, err := Generate(name, Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		tok, out := 0, 0
		for i := range w.Requests {
			tok += w.Requests[i].Tokens
			out += w.Requests[i].Output
		}
		n := len(w.Requests)
		t.Logf("%-14s n=%d last=%.1fs in=%d out=%d ideal=%.3f hash=%x", name, n, w.Requests[n-1].At, tok/n, out/n, w.IdealHit(), w.Hash())
	}
}
