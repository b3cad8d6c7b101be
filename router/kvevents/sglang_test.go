package kvevents

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/router/index"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// sglangEngine is testdata/sglang_engine.py: SGLang's published event recorder
// and publisher.
type sglangEngine struct {
	*libEngine
}

// startSGLang runs it, or skips the test where it is not. TEST_SGLANG, or
// ~/.cache/banyan-sglang, has SGLang's wheel and a venv with msgspec, pyzmq,
// pydantic and psutil; .ci/run makes it.
func startSGLang(t *testing.T, page int, format string) sglangEngine {
	t.Helper()
	dir := cmp.Or(os.Getenv("TEST_SGLANG"), filepath.Join(os.Getenv("HOME"), ".cache", "banyan-sglang"))
	wheels, _ := filepath.Glob(filepath.Join(dir, "sglang-*.whl"))
	if len(wheels) != 1 {
		t.Skipf("skipped: SGLang's published code is not here: %s holds %d wheels (.ci/run fetches it, TEST_SGLANG names another folder)", dir, len(wheels))
	}
	e := &libEngine{t: t, cmd: exec.Command(filepath.Join(dir, "venv", "bin", "python"), "testdata/sglang_engine.py", wheels[0], fmt.Sprint(page), format)}
	e.cmd.Stderr = os.Stderr
	var err error
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.kill)
	stuck := time.AfterFunc(3*testTimeout, func() { _ = e.cmd.Process.Kill() })
	t.Cleanup(func() { stuck.Stop() })
	e.out = bufio.NewReader(out)
	line, err := e.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("sglang_engine.py: %v", err)
	}
	if err := json.Unmarshal(line, e); err != nil {
		t.Fatal(err)
	}
	return sglangEngine{e}
}

// tell sends one line and returns the answer.
func (e sglangEngine) tell(what any) []byte {
	e.t.Helper()
	line, err := json.Marshal(what)
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.in.Write(append(line, '\n')); err != nil {
		e.t.Fatal(err)
	}
	answer, err := e.out.ReadBytes('\n')
	if err != nil {
		e.t.Fatal(err)
	}
	return answer
}

// doing is one operation on SGLang's tree.
type doing map[string]any

func storing(name, parent string, tokens []uint32, more ...string) doing {
	d := doing{"store": name, "parent": parent, "tokens": tokens}
	for i := 0; i+1 < len(more); i += 2 {
		d[more[i]] = more[i+1]
	}
	return d
}

// TestSGLangItself follows the events that SGLang's own published code makes
// and sends, live and out of its replay, in pages of 1 and 16 and in both of its
// formats: what is matched is what its tree holds.
func TestSGLangItself(t *testing.T) {
	for _, page := range []int{1, 16} {
		for _, format := range []string{"default", "dynamo"} {
			t.Run(fmt.Sprintf("page %d, %s", page, format), func(t *testing.T) { sglangRound(t, page, format) })
		}
	}
}

func sglangRound(t *testing.T, page int, format string) {
	e := startSGLang(t, page, format)
	tokens := func(from, n int) (out []uint32) {
		for i := range n {
			out = append(out, uint32(from+i))
		}
		return out
	}
	// Told before anybody listens: only the replay has it.
	e.tell([]doing{{"clear": true}})
	e.tell([]doing{storing("a", "", tokens(100, 48)), storing("b", "a", tokens(148, 32), "session", "s1")})
	x := index.New(index.Config{Hasher: testHasher, Grid: 16, RingBytes: 1 << 20})
	t.Cleanup(x.Close)
	sub, err := NewSubscriber(Config{
		Stream: "s", Engine: SGLang, Events: e.Events, Replay: e.Replay, Grid: 16, Hasher: testHasher,
		Sink: indexSink{newRecordSink(), x}, ZMTP: zmtp.Options{},
	})
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, sub.Run)
	f := &follower{t: t, index: x}
	depth := func(prompt []uint32, lora, salt string, want int) {
		t.Helper()
		waitFor(t, func() string { return fmt.Sprint(f.cached(prompt, lora, salt)) }, fmt.Sprint(want))
	}
	depth(tokens(100, 80), "", "", 5)
	// Another branch, a salt, an adapter.
	e.tell([]doing{
		storing("c", "a", append(tokens(900, 16), tokens(148, 16)...)),
		storing("salted", "", tokens(100, 32), "salt", "tenant"),
		storing("adapted", "", tokens(100, 64), "lora", "adapter"),
	})
	depth(append(tokens(100, 48), append(tokens(900, 16), tokens(148, 16)...)...), "", "", 5)
	depth(tokens(100, 80), "", "tenant", 2)
	depth(tokens(100, 80), "adapter", "", 4)
	depth(tokens(100, 80), "", "", 5)
	// HiCache: a copy on the host, then the GPU's goes, then both.
	e.tell([]doing{storing("b", "a", nil, "medium", "CPU_PINNED"), {"remove": "b", "medium": "GPU"}})
	depth(tokens(100, 80), "", "", 3)
	e.tell([]doing{{"remove": "salted"}})
	depth(tokens(100, 80), "", "tenant", 0)
	depth(tokens(100, 80), "adapter", "", 4)
	e.tell([]doing{{"clear": true}})
	depth(tokens(100, 80), "adapter", "", 0)
	if st := sub.Status(); st.Counters.DroppedEvents+st.Counters.Undecodable+st.Counters.MisfitEvents+st.Counters.UnknownFields > 0 || st.Unusable != "" {
		t.Errorf("%+v", st)
	}
}

// TestSGLangTellsItsLoad decodes what SGLang's LoadStat encodes to.
func TestSGLangTellsItsLoad(t *testing.T) {
	e := startSGLang(t, 16, "default")
	var answer struct{ Topic, Load string }
	if err := json.Unmarshal(e.tell(map[string]any{"load": []int{3, 7, 5000, 80_000, 4096, 9000, 48, 123_456, 789_000}}), &answer); err != nil {
		t.Fatal(err)
	}
	payload, err := hex.DecodeString(answer.Load)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseLoad(payload)
	want := Load{Running: 3, Waiting: 7, Used: 5000, Capacity: 80_000}
	if err != nil || got != want || answer.Topic != "load" {
		t.Errorf("%+v, %v, %q", got, err, answer.Topic)
	}
}
