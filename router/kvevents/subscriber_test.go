package kvevents

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/banyan-llm/banyan/crdt"
	"github.com/banyan-llm/banyan/router/kvevents/follow"
	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

const testTimeout = 30 * time.Second

// quickZMTP finds a restarted engine at once.
var quickZMTP = zmtp.Options{MinBackoff: 2 * time.Millisecond, MaxBackoff: 10 * time.Millisecond}

// fakeEngine publishes like vLLM: PUB and replay ROUTER.
type fakeEngine struct {
	t       testing.TB
	pub     *zmtp.Pub
	router  *zmtp.Router
	topics  bool // replay layout with topics
	live    string
	replays string

	mu      sync.Mutex
	process int
	seq     uint64
	buffer  [][2][]byte // sequence, payload
	asked   int
	skip    map[uint64]bool // batches the replay loses
}

// startEngine binds a fresh engine.
func startEngine(t testing.TB, topics bool) *fakeEngine {
	e := &fakeEngine{t: t, topics: topics, live: "127.0.0.1:0", replays: "127.0.0.1:0", skip: map[uint64]bool{}}
	e.start()
	t.Cleanup(e.stop)
	return e
}

// start begins a process: numbers from 0, nothing buffered.
func (e *fakeEngine) start() {
	e.mu.Lock()
	e.process++
	e.seq, e.buffer = 0, nil
	e.mu.Unlock()
	e.router = insist(e.t, func() (*zmtp.Router, error) { return zmtp.ListenRouter(e.replays, quickZMTP, e.replay) })
	e.replays = e.router.Addr().String()
	e.pub = insist(e.t, func() (*zmtp.Pub, error) { return zmtp.ListenPub(e.live, quickZMTP) })
	e.live = e.pub.Addr().String()
}

// insist listens, again and again if need be: while an engine is down some
// connection of this machine may have been given its port.
func insist[T any](t testing.TB, listen func() (T, error)) T {
	t.Helper()
	for end := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		l, err := listen()
		if err == nil {
			return l
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// stop ends the process.
func (e *fakeEngine) stop() {
	e.pub.Close()
	e.router.Close()
}

// emit makes one batch; live says whether subscribers get it.
func (e *fakeEngine) emit(live bool) {
	e.mu.Lock()
	ts := float64(e.process)*1000 + float64(e.seq)
	payload := encodeRuns(ts, run{first: 100 + e.seq, blocks: 1, size: 16, token: e.seq})
	seq := binary.BigEndian.AppendUint64(nil, e.seq)
	e.seq++
	e.buffer = append(e.buffer, [2][]byte{seq, payload})
	e.mu.Unlock()
	if live {
		e.pub.Send([]byte("kv@127.0.0.1:8000@m"), seq, payload)
	}
}

// replay answers like the engine does, in either layout.
func (e *fakeEngine) replay(r *zmtp.Request) {
	from, err := ParseReplayRequest(r.Frames)
	if err != nil {
		return
	}
	e.mu.Lock()
	e.asked++
	buffer := slices.Clone(e.buffer)
	e.mu.Unlock()
	send := func(seq, payload []byte) bool {
		if e.topics {
			return r.Reply(nil, []byte("t"), seq, payload) == nil
		}
		return r.Reply(nil, seq, payload) == nil
	}
	for _, b := range buffer {
		if n := binary.BigEndian.Uint64(b[0]); n >= from && !e.lost(n) && !send(b[0], b[1]) {
			return
		}
	}
	send([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), nil)
}

// lost reports whether the replay loses a batch.
func (e *fakeEngine) lost(seq uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.skip[seq]
}

// recordSink keeps what was delivered, as a mesh of one peer would.
type recordSink struct {
	mu    sync.Mutex
	slots map[uint64]map[uint64]crdt.Slot
	gone  crdt.Spans
	prior Prior
}

func newRecordSink() *recordSink {
	return &recordSink{slots: map[uint64]map[uint64]crdt.Slot{}}
}

func (s *recordSink) Prior(crdt.StreamID) (Prior, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prior, s.prior.Epoch != 0
}

func (s *recordSink) Deliver(d Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[d.Epoch] == nil {
		s.slots[d.Epoch] = map[uint64]crdt.Slot{}
	}
	if d.Epoch > s.prior.Epoch {
		s.prior = Prior{Epoch: d.Epoch, Anchor: d.Anchor}
	}
	for _, slot := range d.Slots {
		s.slots[d.Epoch][slot.Seq] = slot
		if d.Epoch == s.prior.Epoch && slot.Seq > s.prior.LastSeq {
			s.prior.LastSeq, s.prior.LastTS = slot.Seq, slot.TS
		}
	}
}

func (s *recordSink) Exhausted(_ crdt.StreamID, _ uint64, gone []crdt.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range gone {
		s.gone = s.gone.Add(sp)
	}
}

// have names the slots of an epoch: "1-5 7".
func (s *recordSink) have(epoch uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var set crdt.Spans
	for seq := range s.slots[epoch] {
		set = set.Add(crdt.Span{From: seq, To: seq})
	}
	return spanNames(set)
}

func (s *recordSink) lost() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return spanNames(s.gone)
}

func spanNames(set crdt.Spans) string {
	var parts []string
	for _, sp := range set {
		if sp.From == sp.To {
			parts = append(parts, fmt.Sprint(sp.From))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", sp.From, sp.To))
		}
	}
	return strings.Join(parts, " ")
}

// followEngine runs a subscriber until the test ends.
func followEngine(t testing.TB, e *fakeEngine, sink Sink, replay bool) *Subscriber {
	cfg := Config{
		Stream: "http://127.0.0.1:8000#0", Events: "tcp://" + e.live, Grid: 16, Hasher: testHasher,
		Sink: sink, ZMTP: quickZMTP, Topic: "kv@",
	}
	if replay {
		cfg.Replay = "tcp://" + e.replays
	}
	s, err := NewSubscriber(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, s.Run)
	return s
}

// runUntilEnd runs fn until the test ends and waits for it.
func runUntilEnd(t testing.TB, fn func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = fn(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// waitFor polls a condition of another goroutine.
func waitFor(t testing.TB, what func() string, want string) {
	t.Helper()
	for end := time.Now().Add(testTimeout); what() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out: got %q, want %q", what(), want)
		}
	}
}

// ready waits until the engine has a subscriber.
func (e *fakeEngine) ready(t testing.TB) {
	t.Helper()
	waitFor(t, func() string { return fmt.Sprint(e.pub.Subscribers()) }, "1")
}

func TestSubscriberFollowsRestartsAndGaps(t *testing.T) {
	for _, topics := range []bool{false, true} {
		t.Run(fmt.Sprintf("topics=%v", topics), func(t *testing.T) {
			e := startEngine(t, topics)
			for range 5 {
				e.emit(false) // before anybody listened
			}
			sink := newRecordSink()
			s := followEngine(t, e, sink, true)
			e.ready(t)
			e.emit(true)
			first := uint64(1_000_000)
			waitFor(t, func() string { return sink.have(first) }, "1-6")

			e.emit(false) // lost live
			e.emit(true)
			waitFor(t, func() string { return sink.have(first) }, "1-6 8")
			s.Fetch([]crdt.Span{{From: 7, To: 7}})
			waitFor(t, func() string { return sink.have(first) }, "1-8")

			e.stop()
			e.start()
			for range 12 { // past the old process's last number before we are back
				e.emit(false)
			}
			e.ready(t)
			e.emit(true)
			waitFor(t, func() string { return sink.have(2_000_000) }, "1-13")
			waitFor(t, func() string { return s.Status().State }, "following") // slots are delivered before it says so
			st := s.Status()
			if st.State != "following" || st.Epoch != 2_000_000 || st.LastSeq != 13 || st.Layout != LayoutMap ||
				st.Reconnects == 0 || st.Tracker.Restarts != 1 || st.Counters.Undecodable != 0 {
				t.Errorf("status %+v", st)
			}
			if got := sink.have(first); got != "1-8" {
				t.Errorf("the old incarnation changed: %s", got)
			}
		})
	}
}

func TestSubscriberTellsWhatIsGone(t *testing.T) {
	e := startEngine(t, false)
	sink := newRecordSink()
	s := followEngine(t, e, sink, true)
	e.ready(t)
	e.emit(true)
	waitFor(t, func() string { return sink.have(1_000_000) }, "1")
	e.emit(false)
	e.mu.Lock()
	e.skip[1] = true // the replay has lost it too
	e.mu.Unlock()
	e.emit(true)
	waitFor(t, func() string { return sink.have(1_000_000) }, "1 3")
	s.Fetch([]crdt.Span{{From: 2, To: 2}})
	waitFor(t, sink.lost, "2")
}

func TestSubscriberTakesOver(t *testing.T) {
	e := startEngine(t, true)
	for range 5 {
		e.emit(false)
	}
	sink := newRecordSink()
	sink.prior = Prior{Epoch: 777, Anchor: 1, Floor: 3, LastSeq: 3, LastTS: 1002_000_000}
	followEngine(t, e, sink, true)
	e.ready(t)
	e.emit(true)
	waitFor(t, func() string { return sink.have(777) }, "3-6") // the mesh's epoch, from its last slot on
}

func TestSubscriberSurvivesBrokenPayloads(t *testing.T) {
	e := startEngine(t, true)
	sink := newRecordSink()
	s := followEngine(t, e, sink, true)
	e.ready(t)
	e.emit(true)
	waitFor(t, func() string { return sink.have(1_000_000) }, "1")
	e.pub.Send([]byte("kv@"), []byte("short"), nil)
	e.pub.Send([]byte("kv@"))
	e.mu.Lock()
	seq := binary.BigEndian.AppendUint64(nil, e.seq)
	e.seq++
	e.mu.Unlock()
	e.pub.Send([]byte("kv@"), seq, []byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	e.emit(true)
	waitFor(t, func() string { return sink.have(1_000_000) }, "1 3")
	s.Fetch([]crdt.Span{{From: 2, To: 2}})
	waitFor(t, sink.lost, "2")
	if c := s.Status().Counters; c.BadMessages != 2 || c.Undecodable != 1 {
		t.Errorf("counters %+v", c)
	}
}

func TestSubscriberNamesTheCureForUnusableEvents(t *testing.T) {
	e := startEngine(t, true)
	sink := newRecordSink()
	cfg := Config{Stream: "s", Engine: SGLang, Events: "tcp://" + e.live, Grid: 16, Hasher: testHasher, Sink: sink, ZMTP: quickZMTP}
	s, err := NewSubscriber(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, s.Run)
	e.ready(t)
	for i := range uint64(20) {
		e.pub.Send(nil, binary.BigEndian.AppendUint64(nil, i), encodeRuns(5+float64(i), run{first: 1 + i, blocks: 1, size: 24}))
	}
	waitFor(t, func() string { return s.Status().State }, "unusable")
	waitFor(t, func() string { return fmt.Sprint(s.Status().Counters.Unapplied) }, fmt.Sprint(20-misfitsToJudge+1)) // counted last
	st := s.Status()
	if !strings.Contains(st.Unusable, "--page-size 16") || st.Counters.Messages != 20 {
		t.Errorf("status %+v", st)
	}
}

func TestSubscriberStateWithoutEngine(t *testing.T) {
	s, err := NewSubscriber(Config{Stream: "s", Events: freeEndpoint(t), Grid: 16, Hasher: testHasher, Sink: newRecordSink(), ZMTP: quickZMTP})
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, s.Run)
	waitFor(t, func() string {
		st := s.Status()
		return fmt.Sprintf("%s %v %v", st.State, st.Connected, strings.Contains(st.LastError, "refused"))
	}, "connecting false true")
}

func TestHubRoutesByTopic(t *testing.T) {
	h, err := ListenHub("tcp://127.0.0.1:*", quickZMTP)
	if err != nil {
		t.Fatal(err)
	}
	sink := newRecordSink()
	s, err := NewSubscriber(Config{Stream: "a", Grid: 16, Hasher: testHasher, Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	h.Register("127.0.0.1:8000", 0, s)
	runUntilEnd(t, h.Run)
	runUntilEnd(t, s.Run)
	pub, err := zmtp.DialPub("tcp://"+h.Addr().String(), quickZMTP)
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	waitFor(t, func() string { return fmt.Sprint(pub.Subscribers()) }, "1")
	send := func(topic string, seq uint64) {
		pub.Send([]byte(topic), binary.BigEndian.AppendUint64(nil, seq), encodeRuns(3+float64(seq), run{first: 1 + seq, blocks: 1, size: 16}))
	}
	send("kv@127.0.0.1:9999@m", 0)
	send("kv@127.0.0.1:8000@org/m@v2", 0)
	send("kv@127.0.0.1:8000@org/m@v2", 1)
	waitFor(t, func() string { return sink.have(3000) }, "1-2")
	if h.Unknown() != 1 {
		t.Errorf("%d messages of unknown topics, want 1", h.Unknown())
	}
}

func TestSubscriberIgnoresReplacedConnection(t *testing.T) {
	sink := newRecordSink()
	s, err := NewSubscriber(Config{Stream: "s", Grid: 16, Hasher: testHasher, Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	message := func(conn, seq uint64, ts float64) {
		s.Feed(zmtp.Message{Conn: conn, Frames: [][]byte{
			nil, binary.BigEndian.AppendUint64(nil, seq), encodeRuns(ts, run{first: 1, blocks: 1, size: 16}),
		}})
		s.drain(context.Background())
	}
	message(1, 0, 1000)
	message(2, 0, 2000)                     // the engine restarted and dialed again
	message(1, 1, 1001)                     // what was left of the connection before
	s.began = s.began.Add(-5 * time.Second) // nothing proves that it is the same process, so it is another
	s.step(context.Background(), follow.Tick{}, time.Now())
	s.deliver()
	if sink.have(1_000_000) != "1" || sink.have(2_000_000) != "1" || s.Status().Counters.Late != 1 {
		t.Fatalf("have %s and %s, status %+v", sink.have(1_000_000), sink.have(2_000_000), s.Status())
	}
}

func TestFeedNeverBlocks(t *testing.T) {
	s, err := NewSubscriber(Config{Stream: "s", Grid: 16, Hasher: testHasher, Sink: newRecordSink()})
	if err != nil {
		t.Fatal(err)
	}
	for range inboxMessages + 5 { // nobody runs the stream
		s.Feed(zmtp.Message{Conn: 1})
	}
	if n := s.Status().Counters.Overflow; n != 5 {
		t.Errorf("%d messages overflowed, want 5", n)
	}
}

func TestSubscriberConfigIsChecked(t *testing.T) {
	good := Config{Stream: "s", Grid: 16, Hasher: testHasher, Sink: newRecordSink()}
	for name, spoil := range map[string]func(*Config){
		"no stream":    func(c *Config) { c.Stream = "" },
		"no sink":      func(c *Config) { c.Sink = nil },
		"no grid":      func(c *Config) { c.Grid = 0 },
		"no hasher":    func(c *Config) { c.Hasher = nil },
		"bad endpoint": func(c *Config) { c.Events = "tcp://*:1" },
		"bad replay":   func(c *Config) { c.Replay = "udp://x:1" },
	} {
		c := good
		spoil(&c)
		if _, err := NewSubscriber(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
