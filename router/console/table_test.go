package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
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
		Mesh: Mesh{
			PropagationMs: Quantiles{P50: ptr(.4), P99: ptr(3.0), Count: 70_000},
			BytesIn:       map[string]uint64{"slots": 310 << 20, "digest": 2 << 20, "want": 0, "hello": 122},
			BytesOut:      map[string]uint64{"slots": 290 << 20, "predict": 1300 << 10},
			Snapshots:     map[string]uint64{"join": 64, "gap": 0, "behind": 2},
		},
		Keys: []Keying{
			{Model: "m", API: "chat", Scheme: "engine", Rung: "tokenize", Reason: "asked", Exact: true},
			{Model: "m", API: "messages", Scheme: "text", Reason: "unsupported", Off: true, Why: "/v1/messages/render answered 403"},
			{Model: "n", API: "chat", Scheme: "text", Reason: "configured"},
		},
		Prefixes: []Prefix{{Key: "3f9c01aa00000000", Tokens: 2048, Blocks: 128, Holders: []string{"r2", "r3"}}},
		Problems: []Problem{{Text: "r3 is down: connection refused", Help: "Requests go to the others"}},
	}
}

func TestTableGolden(t *testing.T) {
	time.Local = time.UTC
	var out bytes.Buffer
	if err := sample().WriteTable(&out, Look{}); err != nil {
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
	if err := s.WriteTable(&out, Look{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.HasPrefix(line, "x ") && strings.ContainsAny(line, "0") {
			t.Errorf("C2: unknown values are drawn as numbers: %q", line)
		}
	}
}

// many is a mesh too large for a terminal, with names too long for it.
func many() *Status {
	s := sample()
	s.Replicas[1].URL = "http://a-service-with-a-name.a-namespace-with-a-name.svc.cluster.local:8000"
	for i := range 64 {
		r := s.Replicas[0]
		r.Name = fmt.Sprintf("vllm-llama-3-3-70b-instruct-fp8-node-%02d-gpu-%d", i/8, i%8)
		r.URL = "http://" + r.Name + ".pool.svc.cluster.local:8000"
		s.Replicas = append(s.Replicas, r)
	}
	return s
}

func TestTablesFitTheTerminal(t *testing.T) {
	for _, width := range []int{60, 80, 200} {
		var out bytes.Buffer
		if err := many().WriteTable(&out, Look{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d wide on %d: %q", n, width, line)
			}
		}
		for _, want := range []string{"STATE", "INFLIGHT", "CACHED", "STREAM", "… 56 more; --all shows them", "down 12s"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%d columns lack %q:\n%s", width, want, out.String())
			}
		}
		if url := strings.Contains(out.String(), "URL"); url != (width == 200) {
			t.Errorf("%d columns show addresses: %v", width, url)
		}
		if strings.Index(out.String(), "\nr3 ") > strings.Index(out.String(), "\nr2 ") {
			t.Errorf("the replica that is down does not stand first:\n%s", out.String())
		}
	}
	var piped, all bytes.Buffer
	if err := many().WriteTable(&piped, Look{}); err != nil {
		t.Fatal(err)
	}
	if err := many().WriteTable(&all, Look{Width: 80, All: true}); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"piped": piped.String(), "all": all.String()} {
		if strings.Count(text, "vllm-llama") < 64 || strings.Contains(text, "more;") {
			t.Errorf("%s: rows are missing", what)
		}
	}
	if strings.Contains(piped.String(), "…") {
		t.Error("piped, something is cut")
	}
}

func TestColourOnlyWhereItSaysSomething(t *testing.T) {
	var plain, color bytes.Buffer
	if err := sample().WriteTable(&plain, Look{}); err != nil {
		t.Fatal(err)
	}
	if err := sample().WriteTable(&color, Look{Color: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("escapes where no colour was asked for")
	}
	bare := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(color.String(), "")
	if bare != plain.String() || !strings.Contains(color.String(), "\x1b[31;1mr3") {
		t.Errorf("coloured:\n%q", color.String())
	}
}

func TestNamesCannotSteerTheTerminal(t *testing.T) {
	s := sample()
	s.Name, s.Replicas[0].Name, s.Problems[0].Text = "\x1b[2J", "r\x07\x1b]0;x", "line\nbreak"
	var out bytes.Buffer
	if err := errors.Join(s.WriteTable(&out, Look{Width: 80}), s.WriteChecks(&out, Look{})); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07") || strings.Contains(out.String(), "line\nbreak") {
		t.Errorf("C4: %q", out.String())
	}
}

func TestChecksSayWhatFails(t *testing.T) {
	s := sample()
	s.Judge()
	var out bytes.Buffer
	if err := s.WriteChecks(&out, Look{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"√ this peer is ready", "× 1 of 2 replicas is down or unusable: r3", "! r3 is down: connection refused. Requests go", "√ connected to the events of 1 of 2 replicas: 1 down or unusable", "1 problem, seen"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	s = sample()
	s.Replicas, s.Problems, s.Keys = s.Replicas[:1], nil, s.Keys[:1]
	s.Judge()
	out.Reset()
	if err := s.WriteChecks(&out, Look{}); err != nil || strings.Contains(out.String(), "×") || !strings.Contains(out.String(), "all is well, seen from a") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	for i := range s.Replicas {
		s.Replicas[i].State, s.Replicas[i].Models = "draining", []string{"m"}
	}
	out.Reset()
	if err := s.WriteChecks(&out, Look{}); err != nil || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), "× drained by an operator: r2; no other replica serves m, so its requests still go there") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// The reason why a replica is down is told once: its events cannot be had either,
// in a column that would grow by it.
func TestADownReplicaTakesNoMoreRoom(t *testing.T) {
	s := sample()
	r := &s.Replicas[0]
	r.Stream.State, r.Stream.Detail = "connecting", "dial tcp 10.0.0.1:5557: connection refused"
	for state, told := range map[string]bool{"down": false, "up": true} {
		r.State = state
		var out strings.Builder
		if err := s.WriteTable(&out, Look{}); err != nil || strings.Contains(out.String(), r.Stream.Detail) != told {
			t.Errorf("%s: %v\n%s", state, err, out.String())
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

// The KEYS of a replica are those of its models' rows, and of the prefixes those
// are shown that prompts used, the most used first.
func TestTheTablesAgree(t *testing.T) {
	s := sample()
	s.Replicas[0].Models, s.Replicas[1].Models = []string{"m"}, []string{"n"}
	for want, r := range map[string]*Replica{"exact, text": &s.Replicas[0], "text": &s.Replicas[1]} {
		if got := keysText(s, r); got != want {
			t.Errorf("%s: %q, want %q", r.Name, got, want)
		}
	}
	s.Prefixes = []Prefix{{Key: "aaaaaaaa", HitShare: ptr(0.)}, {Key: "bbbbbbbb", HitShare: ptr(.1)}, {Key: "cccccccc", HitShare: ptr(.9)}}
	if rows := prefixRows(s, false); len(rows) != 2 || rows[0].cells[0] != "cccccccc" {
		t.Errorf("%+v", rows)
	}
	if rows := prefixRows(s, true); len(rows) != 3 {
		t.Errorf("all: %+v", rows)
	}
}

func TestTheVerdictNamesTheFirstTrouble(t *testing.T) {
	s := sample()
	s.Problems = append(s.Problems, Problem{Text: "b"}, Problem{Text: "c"})
	s.Judge()
	if want := "r3 is down: connection refused (and 2 more). 2/2 peers"; !strings.HasPrefix(s.Verdict, want) {
		t.Errorf("%q", s.Verdict)
	}
	s.Problems[0].Text = strings.Repeat("long ", 100)
	if s.Judge(); utf8.RuneCountInString(s.Verdict) > 200 {
		t.Errorf("%q", s.Verdict)
	}
	s.Replicas[0].State, s.Problems = "draining", nil
	var out bytes.Buffer
	if err := s.WriteChecks(&out, Look{}); err != nil || !strings.Contains(out.String(), "√ drained, gets no new requests: r2") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// A check that waits waits for the other peers too.
func TestPeersThatAreNotReadyYetAreWaitedFor(t *testing.T) {
	s := Status{Peers: []Peer{{Name: "a", State: "alive", Ready: true}, {Name: "b", State: "alive"}}}
	if s.Settled() {
		t.Error("b is not ready yet")
	}
	if s.Peers[1].Draining = true; !s.Settled() {
		t.Error("b drains and will not be ready")
	}
}

// TestExactRoutingNeedsEvents: where no replica has any, nothing is said to be
// exactly routed.
func TestExactRoutingNeedsEvents(t *testing.T) {
	for _, c := range []struct {
		replicas []Replica
		keys     []Keying
		want     string
		holds    bool
	}{
		{[]Replica{{State: "up", Stream: Stream{State: "ok"}}, {State: "up", Stream: Stream{State: "none"}}}, nil, "exact routing: on for every model with events", true},
		{[]Replica{{State: "up", Stream: Stream{State: "none"}}}, nil, "exact routing: off, because no replica announces cache events", true},
		{[]Replica{{State: "up", Stream: Stream{State: "none"}}, {Kind: "pool", State: "up", Stream: Stream{State: "ok"}}}, nil, "exact routing: off, because no replica announces cache events", true},
		{[]Replica{{State: "up", Stream: Stream{State: "ok"}}}, []Keying{{Model: "m", API: "chat", Off: true}}, "exact routing is off for m (chat)", false},
		{nil, nil, "exact routing: off, because no replica announces cache events", true},
	} {
		s := Status{Replicas: c.replicas, Keys: c.keys}
		if got := s.keysCheck(); got.text != c.want || got.holds != c.holds {
			t.Errorf("%+v: %+v, want %q", c.replicas, got, c.want)
		}
	}
}

// TestAStrictCheckCountsAdvice: what works and could work better fails it.
func TestAStrictCheckCountsAdvice(t *testing.T) {
	s := Status{Name: "a", OK: true, Ready: true}
	if !s.Passes(false) || !s.Passes(true) {
		t.Error("nothing is wrong")
	}
	s.Notes = []Problem{{Text: "It could be better", Help: "Better it"}}
	if !s.Passes(false) || s.Passes(true) {
		t.Error("advice fails the strict check alone")
	}
	for strict, want := range map[bool]string{false: "all is well, seen from a", true: "1 piece of advice, seen from a"} {
		var out bytes.Buffer
		if err := s.WriteChecks(&out, Look{Strict: strict}); err != nil || !strings.HasSuffix(strings.TrimSpace(out.String()), want) {
			t.Errorf("%s", out.String())
		}
	}
	s.OK, s.Problems = false, s.Notes
	var out bytes.Buffer
	if err := s.WriteChecks(&out, Look{Strict: true}); err != nil || s.Passes(false) || !strings.HasSuffix(strings.TrimSpace(out.String()), "1 problem, 1 piece of advice, seen from a") {
		t.Errorf("%s", out.String())
	}
}
