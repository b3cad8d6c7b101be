package console

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

func ptr[T any](v T) *T { return &v }

func sample() *Status {
	return &Status{
		Name: "a", PeerID: "00", Version: "1.2.0", Label: "pool-a", Policy: "ttft", Grid: 16, OK: false, Ready: true,
		TimeMs: time.Date(2026, 11, 21, 12, 4, 31, 0, time.UTC).UnixMilli(),
		Peers: []Peer{
			{Name: "a", Address: "10.0.0.4:7946", Self: true, State: "alive", Ready: true, Version: "1.2.0", Rate: ptr(14.1), Facts: ptr(uint64(4_800_000)), Memory: ptr(uint64(310 << 20))},
			{Name: "b", Address: "10.0.0.5:7946", State: "alive", Draining: true, Version: "1.2.0", Rate: ptr(0.2), ViewAgeMs: ptr(9.0)},
			{Name: "gone", Address: "10.0.0.6:7946", State: "left"},
		},
		Replicas: []Replica{
			{Name: "r2", URL: "http://10.0.1.2:80", Engine: "vllm", EngineFrom: "/v1/models", BlockSize: ptr(16), SlowStart: ptr(.4), Role: "both", State: "up", Inflight: 31, Uncached: 12_400, Cached: ptr(.81), Tokenizer: "engine", Stream: Stream{State: "ok", Facts: 1_200_000}},
			{Name: "r3", URL: "http://10.0.1.3:80", Engine: "vllm", EngineFrom: "assumed", Role: "both", State: "down", SinceMs: 12_000, Stream: Stream{State: "connecting", Detail: "connection refused"}},
		},
		Prefixes: []Prefix{{Key: "3f9c01aa00000000", Tokens: 2048, Blocks: 128, Holders: []string{"r2", "r3"}}},
		Problems: []Problem{{Text: "r3 is down: connection refused", Help: "Requests go to the others"}},
	}
}

func TestTableGolden(t *testing.T) {
	time.Local = time.UTC
	var out bytes.Buffer
	if err := sample().WriteTable(&out, 0); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/status.txt"
	if *rewrite {
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the table changed; look at it and run with -rewrite:\n%s", out.String())
	}
}

func TestUnknownIsADashAndNeverZero(t *testing.T) {
	var out bytes.Buffer
	s := &Status{Peers: []Peer{{Name: "x", State: "alive"}}, Replicas: []Replica{{Name: "r", State: "up"}}}
	if err := s.WriteTable(&out, 0); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.HasPrefix(line, "x ") && strings.ContainsAny(line, "0") {
			t.Errorf("C2: unknown values are drawn as numbers: %q", line)
		}
	}
}

func TestLinesAreCutToTheTerminal(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteTable(&out, 60); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.HasPrefix(line, "r2") && utf8.RuneCountInString(line) > 60 {
			t.Errorf("%d wide: %q", utf8.RuneCountInString(line), line)
		}
	}
}

// Field names are promises (C1): this list may grow, never change.
func TestDocumentKeepsItsNames(t *testing.T) {
	data, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"name", "peer_id", "version", "label", "policy", "ready", "draining", "peers", "replicas", "mesh", "tree", "requests", "prefixes",
		"problems", "view_age_ms", "inflight", "uncached_tokens", "divergent_streams", "propagation_ms", "digest", "owners", "epoch", "floor", "facts",
		"level", "verdict", "view_ages_ms", "ttft_ms", "added_ms",
	} {
		if !strings.Contains(string(data), `"`+name+`":`) {
			t.Errorf("C1: %q is gone", name)
		}
	}
}
