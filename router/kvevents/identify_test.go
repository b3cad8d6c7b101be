package kvevents

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/banyan-llm/banyan/router/kvevents/zmtp"
)

// askedEngine is a fake engine that tells its start after some failures.
type askedEngine struct {
	*fakeEngine
	start atomic.Uint64
	fails atomic.Int64 // so often it does not answer
	asked atomic.Int64
}

func (e *askedEngine) Start(context.Context) (uint64, error) {
	e.asked.Add(1)
	if e.fails.Add(-1) >= 0 {
		return 0, errors.New("busy")
	}
	return e.start.Load(), nil
}

func (e *askedEngine) follow(t *testing.T, sink Sink, replay bool) *Subscriber {
	cfg := Config{
		Stream: "http://127.0.0.1:8000#0", Events: "tcp://" + e.live, Grid: 16, Hasher: testHasher,
		Sink: sink, ZMTP: quickZMTP, Start: e.Start,
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

// Batches wait until the engine tells when it started; a broken connection to
// the same process goes on under the same epoch, without a replay and whatever is
// missed; a restart opens an epoch before the first batch.
func TestSubscriberAsksTheEngineWhoItIs(t *testing.T) {
	e := &askedEngine{fakeEngine: startEngine(t, true)}
	e.start.Store(700)
	e.fails.Store(2)
	sink := newRecordSink()
	s := e.follow(t, sink, false)
	e.ready(t)
	e.emit(true)
	waitFor(t, func() string { return sink.have(700) }, "1")
	if n := e.asked.Load(); n < 3 {
		t.Errorf("asked %d times", n)
	}
	s.sub.HangUp(s.Status().Reconnects + 1)
	waitFor(t, func() string { return fmt.Sprint(s.Status().Reconnects) }, "1")
	e.emit(false)
	e.ready(t)
	waitFor(t, func() string {
		e.emit(true) // PUB drops what comes before the subscription
		return fmt.Sprint(s.Status().LastSeq >= 4)
	}, "true")
	if st := s.Status(); st.Epoch != 700 || st.Tracker.Restarts != 0 || st.Start != 700 {
		t.Errorf("%+v", st)
	}
	e.stop()
	e.start.Store(900)
	e.fakeEngine.start()
	waitFor(t, func() string { return fmt.Sprint(sink.epoch()) }, "900")
	if sink.have(900) != "" {
		t.Errorf("have %s before the first batch", sink.have(900))
	}
}

// While an engine does not answer its batches wait, and the status says for what.
func TestAnEngineThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	e := &askedEngine{fakeEngine: startEngine(t, true)}
	e.start.Store(700)
	e.fails.Store(1 << 40)
	sink := newRecordSink()
	s := e.follow(t, sink, false)
	e.ready(t)
	e.emit(true)
	waitFor(t, func() string { return fmt.Sprint(s.Status().Counters.Messages) }, "1")
	if st := s.Status(); st.State != "asking" || sink.epoch() != 0 {
		t.Errorf("%+v, epoch %d", st, sink.epoch())
	}
	e.fails.Store(0)
	waitFor(t, func() string { return sink.have(700) }, "1")
}

// An answer about a connection that ended meanwhile says nothing of the next one.
func TestAnAnswerAboutAnEndedConnectionIsDropped(t *testing.T) {
	sink := newRecordSink()
	s, err := NewSubscriber(Config{Stream: "s", Grid: 16, Hasher: testHasher, Sink: sink, Start: func(ctx context.Context) (uint64, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer s.asks.Wait()
	defer cancel()
	take := func(m zmtp.Message) {
		s.Feed(m)
		s.drain(ctx)
	}
	take(zmtp.Message{Kind: zmtp.Up, Conn: 1})
	take(zmtp.Message{Kind: zmtp.Down, Conn: 1})
	take(zmtp.Message{Kind: zmtp.Up, Conn: 2})
	s.answered(ctx, identity{conn: 1, start: 5})
	if s.tracker.Epoch() != 0 {
		t.Fatalf("epoch %d", s.tracker.Epoch())
	}
	take(zmtp.Message{Kind: zmtp.Down, Conn: 7}) // another engine's, in a hub
	s.answered(ctx, identity{conn: 2, start: 6})
	if s.tracker.Epoch() != 6 || sink.epoch() != 6 {
		t.Fatalf("epoch %d, told %d", s.tracker.Epoch(), sink.epoch())
	}
}

// epoch is the highest told.
func (s *recordSink) epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prior.Epoch
}
