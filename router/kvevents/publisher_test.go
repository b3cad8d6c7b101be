package kvevents

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
	"github.com/banyan-llm/banyan/simulation/freeport"
)

// publisher is a script on a real libzmq that follows the engines' protocol, not
// written for these tests. It lies beside a checkout, or nowhere.
const publisher = "../../../shared/vectors/publisher.py"

func runScript(t *testing.T, args ...string) (kill func()) {
	t.Helper()
	if _, err := os.Stat(publisher); err != nil {
		t.Skipf("skipped: no script of a publisher: %v", err)
	}
	if err := exec.Command(python, "-c", "import zmq").Run(); err != nil {
		t.Skipf("no libzmq to test against: %v", err)
	}
	cmd := exec.Command(python, append([]string{publisher, "--linger", "120"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "ready") {
		t.Fatalf("%q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }() // ends with the process
	return kill
}

// freeEndpoint is an address that nobody but the test will listen at.
func freeEndpoint(t testing.TB) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return "tcp://" + address
}

// scriptEpoch is the time of the script's first batch in ms.
const scriptEpoch = 1_700_000_000_000

func TestScriptIsFollowed(t *testing.T) {
	for _, tc := range []struct {
		name, layout string
		dials        bool
	}{{"bound, layout 5", "5", false}, {"bound, layout 4", "4", false}, {"dialing, layout 5", "5", true}, {"dialing, layout 4", "4", true}} {
		t.Run(tc.name, func(t *testing.T) {
			if testing.Short() && tc.layout == "4" {
				t.Skip("skipped: layout 5 is enough for -short")
			}
			t.Parallel() // it mostly waits
			events, replay := freeEndpoint(t), freeEndpoint(t)
			sink := newRecordSink()
			cfg := Config{Stream: "s", Events: events, Replay: replay, Grid: 16, Hasher: testHasher, Sink: sink}
			args := []string{"--mode", "load", "--rate", "1000", "--replay-endpoint", replay, "--replay-format", tc.layout, "--wait-sub"}
			if tc.dials {
				h, err := ListenHub("tcp://127.0.0.1:*", quickZMTP)
				if err != nil {
					t.Fatal(err)
				}
				events, cfg.Events = "tcp://"+h.Addr().String(), ""
				args = append(args, "--connect")
				s, err := NewSubscriber(cfg)
				if err != nil {
					t.Fatal(err)
				}
				h.Register("127.0.0.1:8000", 0, s)
				runUntilEnd(t, h.Run)
				followScript(t, s, sink, append(args, "--endpoint", events))
				return
			}
			s, err := NewSubscriber(cfg)
			if err != nil {
				t.Fatal(err)
			}
			followScript(t, s, sink, append(args, "--endpoint", events))
		})
	}
}

// followScript follows one publisher through a gap, five seconds of absence
// and another process that goes on where it ended.
func followScript(t *testing.T, s *Subscriber, sink *recordSink, args []string) {
	runUntilEnd(t, s.Run)
	kill := runScript(t, append(args, "--count", "1500", "--gap-at", "700")...)
	waitFor(t, func() string { return fmt.Sprint(s.Status().LastSeq) }, "1500")
	s.Fetch([]crdt.Span{{From: 701, To: 701}})
	waitFor(t, func() string { return sink.have(scriptEpoch) }, "1-1500")
	kill()
	time.Sleep(5 * time.Second) // the absence is the test
	if st := s.Status(); s.cfg.Events != "" && (st.Connected || st.LastError == "") {
		t.Errorf("during the absence: %+v", st)
	}
	runScript(t, append(args, "--count", "1800")...)
	waitFor(t, func() string { return sink.have(scriptEpoch) }, "1-1800")
	st := s.Status()
	if st.Tracker.Restarts != 0 || st.Counters.Undecodable != 0 || st.Counters.BadMessages != 0 || len(sink.slots) != 1 {
		t.Errorf("%+v", st)
	}
	t.Logf("%d live and %d replayed batches, %d replays, %d duplicates, %d reconnects",
		st.Counters.Messages, st.Counters.ReplayBatches, st.Tracker.Replays, st.Tracker.Duplicates, st.Reconnects)
}

// Every vector through a real libzmq, those that break the rules included. The
// vectors repeat their numbers, as no engine does over one connection: a
// subscriber that dials would hang up and miss some, so they are fed to it.
func TestScriptPlaysVectors(t *testing.T) {
	events := freeEndpoint(t)
	s, err := NewSubscriber(Config{Stream: "s", Grid: 16, Hasher: testHasher, Sink: newRecordSink()})
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, s.Run)
	sub := zmtp.DialSub(events, "", quickZMTP)
	t.Cleanup(func() { _ = sub.Close() })
	runUntilEnd(t, func(ctx context.Context) error {
		for {
			m, err := sub.Recv(ctx)
			if err != nil {
				return err
			}
			s.Feed(m)
		}
	})
	played := 0
	for _, v := range readVectors(t, "testdata/vectors.jsonl") {
		if v.Kind == "live" || v.Kind == "malformed" {
			played++
		}
	}
	runScript(t, "--mode", "vectors", "--malformed", "--wait-sub", "--endpoint", events)
	waitFor(t, func() string { return fmt.Sprint(s.Status().Counters.Messages) }, fmt.Sprint(played))
	t.Logf("%+v", s.Status().Counters)
}
