package kvevents

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
)

// python is Debian's interpreter, which sees Debian's python3-zmq.
const python = "/usr/bin/python3"

// libEngine is testdata/engine.py: an engine's publisher on a real libzmq.
type libEngine struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	Events, Replay string
}

// startLibEngine runs it, or skips the test where there is no libzmq.
func startLibEngine(t testing.TB, how, events, replay, layout string, ts int) *libEngine {
	t.Helper()
	if err := exec.Command(python, "-c", "import zmq").Run(); err != nil {
		t.Skipf("no libzmq to test against: %s -c 'import zmq': %v (apt-get install python3-zmq)", python, err)
	}
	e := &libEngine{t: t, cmd: exec.Command(python, "testdata/engine.py", how, events, replay, layout, fmt.Sprint(ts))}
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
		t.Fatalf("engine.py: %v", err)
	}
	if err := json.Unmarshal(line, e); err != nil {
		t.Fatal(err)
	}
	return e
}

// kill ends the process the hard way.
func (e *libEngine) kill() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}

// do sends a command and waits until it is done: a replay asked for before
// would be answered without it.
func (e *libEngine) do(word string, n int) {
	e.t.Helper()
	if _, err := fmt.Fprintf(e.in, "%s %d\n", word, n); err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.out.ReadBytes('\n'); err != nil {
		e.t.Fatal(err)
	}
}

func TestInteropSubscriberFollowsLibzmqEngine(t *testing.T) {
	for _, layout := range []string{"4", "5"} {
		t.Run("replay layout "+layout, func(t *testing.T) {
			e := startLibEngine(t, "bind", "tcp://127.0.0.1:*", "tcp://127.0.0.1:*", layout, 1000)
			e.do("emit", 5) // nobody listens yet
			sink := newRecordSink()
			s, err := NewSubscriber(Config{
				Stream: "s", Events: e.Events, Replay: e.Replay, Topic: "kv@",
				Grid: 16, Hasher: testHasher, Sink: sink, ZMTP: quickZMTP,
			})
			if err != nil {
				t.Fatal(err)
			}
			runUntilEnd(t, s.Run)
			waitFor(t, func() string { return sink.have(1_000_000) }, "1-5")
			emitUntilSeen(t, e, sink, 1_000_000, 6)

			last := s.Status().LastSeq
			e.do("lose", 3) // a gap
			e.do("emit", 1)
			waitFor(t, func() string { return fmt.Sprint(s.Status().LastSeq) }, fmt.Sprint(last+4))
			s.Fetch([]crdt.Span{{From: 6, To: last + 3}}) // 6 and on may have come before the subscription
			waitFor(t, func() string { return sink.have(1_000_000) }, fmt.Sprintf("1-%d", last+4))

			e.kill() // an outage, then a new process on the same ports
			waitFor(t, func() string { return s.Status().State }, "connecting")
			again := startLibEngine(t, "bind", e.Events, e.Replay, layout, 2000)
			again.do("lose", int(last)+20) // it has passed the old numbers before we are back
			emitUntilSeen(t, again, sink, 2_000_000, last+21)
			waitFor(t, func() string { return sink.have(2_000_000) }, fmt.Sprintf("1-%d", s.Status().LastSeq))
			if st := s.Status(); st.Tracker.Restarts != 1 || st.Counters.Undecodable != 0 {
				t.Errorf("status %+v", st)
			}
		})
	}
}

// emitUntilSeen emits batches one by one until a slot at or behind seq came
// live: a subscription takes a moment, and PUB drops what nobody wants yet.
func emitUntilSeen(t *testing.T, e *libEngine, sink *recordSink, epoch, seq uint64) {
	t.Helper()
	for end := time.Now().Add(testTimeout); ; {
		if prior, _ := sink.Prior(""); prior.Epoch == epoch && prior.LastSeq >= seq {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nothing came live; have %s of %v", sink.have(epoch), len(sink.slots))
		}
		e.do("emit", 1)
		time.Sleep(20 * time.Millisecond)
	}
}

// TestInteropLossyReplay asks libzmq's ROUTER for a full buffer. Its send
// queue drops without a word; what is missing is asked for again.
func TestInteropLossyReplay(t *testing.T) {
	const batches = 9_000 // the buffer holds 10,000: none is evicted meanwhile
	e := startLibEngine(t, "bind", "tcp://127.0.0.1:*", "tcp://127.0.0.1:*", "5", 1000)
	e.do("lose", batches)
	sink := newRecordSink()
	s, err := NewSubscriber(Config{
		Stream: "s", Events: e.Events, Replay: e.Replay, Topic: "kv@",
		Grid: 16, Hasher: testHasher, Sink: sink, ZMTP: quickZMTP,
	})
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, s.Run)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("status %+v", s.Status())
		}
	})
	waitFor(t, func() string { return fmt.Sprint(sink.have(1_000_000) != "") }, "true") // else a live batch might name the incarnation
	emitUntilSeen(t, e, sink, 1_000_000, batches+1)
	waitFor(t, func() string {
		var left crdt.Spans
		sink.mu.Lock()
		defer sink.mu.Unlock()
		for seq := uint64(1); seq <= batches; seq++ {
			if _, ok := sink.slots[1_000_000][seq]; !ok && !sink.gone.Has(seq) {
				left = left.Add(crdt.Span{From: seq, To: seq})
			}
		}
		return spanNames(left)
	}, "")
	st := s.Status()
	t.Logf("%d of %d batches, given up %s, %d replays with %d batches in all",
		len(sink.slots[1_000_000]), batches, sink.lost(), st.Tracker.Replays, st.Counters.ReplayBatches)
	if len(sink.slots[1_000_000]) < batches*99/100 {
		t.Errorf("only %d of %d batches", len(sink.slots[1_000_000]), batches)
	}
}

func TestInteropHubReceivesFromLibzmqEngine(t *testing.T) {
	h, err := ListenHub("tcp://127.0.0.1:*", quickZMTP)
	if err != nil {
		t.Fatal(err)
	}
	e := startLibEngine(t, "connect", "tcp://"+h.Addr().String(), "tcp://127.0.0.1:*", "5", 1000)
	sink := newRecordSink()
	s, err := NewSubscriber(Config{Stream: "s", Replay: e.Replay, Grid: 16, Hasher: testHasher, Sink: sink, ZMTP: quickZMTP})
	if err != nil {
		t.Fatal(err)
	}
	h.Register("127.0.0.1:8000", 0, s)
	runUntilEnd(t, h.Run)
	runUntilEnd(t, s.Run)
	e.do("emit", 5)
	emitUntilSeen(t, e, sink, 1_000_000, 6)
	waitFor(t, func() string { return sink.have(1_000_000) }, fmt.Sprintf("1-%d", s.Status().LastSeq))
}
