package follow

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/banyan-llm/banyan/crdt"
)

// slot makes a batch whose time is seq*10 ms behind a process's start.
func slot(process int, seq uint64) crdt.Slot {
	return crdt.Slot{Seq: seq, TS: int64(process)*1_000_000_000 + int64(seq)*10_000, Body: []byte{0, 0, 0, byte(process)}}
}

// started is a process's start time, ms: before its first batch.
func started(process int) uint64 { return uint64(process) * 1_000_000 }

// named is the epoch of a silent process whose earliest slot is seq.
func named(process int, seq uint64) uint64 { return uint64(slot(process, seq).TS / 1000) }

// told is the word on a process.
func told(process int) Identified { return Identified{Start: started(process)} }

// script drives a tracker and writes down what it put out.
type script struct {
	t     *testing.T
	tr    *Tracker
	now   int64
	prior Prior
}

func newScript(t *testing.T, replay bool) *script { return &script{t: t, tr: New(replay), now: 1000} }

// do feeds an event and compares the outcome with want: "opened E", "deliver 1 2
// epoch E anchor A", "stop", "replay N", "again N", "hang up", "exhausted A-B",
// in this order.
func (s *script) do(ev Event, want string) {
	s.t.Helper()
	s.now += 10
	out := s.tr.Step(s.now, s.prior, ev)
	var parts []string
	if out.Opened {
		parts = append(parts, fmt.Sprintf("opened %d", out.Epoch))
	}
	if len(out.Deliver) > 0 {
		seqs := ""
		for _, d := range out.Deliver {
			seqs += fmt.Sprintf(" %d", d.Seq)
		}
		parts = append(parts, fmt.Sprintf("deliver%s epoch %d anchor %d", seqs, out.Epoch, out.Anchor))
	}
	if out.StopReplay {
		parts = append(parts, "stop")
	}
	if out.Replay != nil && out.Replay.Again {
		parts = append(parts, fmt.Sprintf("again %d", out.Replay.From))
	} else if out.Replay != nil {
		parts = append(parts, fmt.Sprintf("replay %d", out.Replay.From))
	}
	if out.HangUp {
		parts = append(parts, "hang up")
	}
	for _, sp := range out.Exhausted {
		parts = append(parts, fmt.Sprintf("exhausted %d-%d", sp.From, sp.To))
	}
	if got := strings.Join(parts, "; "); got != want {
		s.t.Fatalf("%T%+v in %s:\n got %q\nwant %q", ev, ev, s.tr.Phase(), got, want)
	}
	s.learn(&out)
}

// learn is the mesh: it knows what was put out.
func (s *script) learn(out *Output) {
	if out.Opened {
		s.prior = Prior{Epoch: out.Epoch}
	}
	for _, d := range out.Deliver {
		if s.prior.Anchor == 0 {
			s.prior.Anchor = out.Anchor
		}
		if d.Seq > s.prior.LastSeq {
			s.prior.LastSeq, s.prior.LastTS = d.Seq, d.TS
		}
	}
}

func deliver(epoch, anchor uint64, seqs ...uint64) string {
	s := ""
	for _, x := range seqs {
		s += fmt.Sprintf(" %d", x)
	}
	return fmt.Sprintf("deliver%s epoch %d anchor %d", s, epoch, anchor)
}

func opened(epoch uint64) string { return fmt.Sprintf("opened %d", epoch) }

func TestNamesRiseAndTellTheStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "processes") {
			start := rapid.OneOf(rapid.Uint64Range(0, 5), rapid.Uint64Range(0, MaxStart)).Draw(t, "start")
			name := Name(known, start)
			if name < known || (name == known) != (StartOf(known) == start && known != 0 || known+start == 0) {
				t.Fatalf("after %x a process of %x is named %x", known, start, name)
			}
			if StartOf(name) != start || Name(name, start) != name {
				t.Fatalf("%x does not tell its start %x", name, start)
			}
			known = name
		}
	})
}

func TestColdStart(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(Live{slot(1, 5)}, "") // waits for the start time
	s.do(told(1), opened(started(1))+"; replay 1")
	s.do(Live{slot(1, 6)}, "") // and for the replay
	s.do(Replayed{slot(1, 3)}, deliver(started(1), 3, 3))
	s.do(Replayed{slot(1, 4)}, deliver(started(1), 3, 4))
	s.do(Replayed{slot(1, 5)}, deliver(started(1), 3, 5))
	s.do(ReplayEnded{true}, deliver(started(1), 3, 6))
	s.do(Live{slot(1, 7)}, deliver(started(1), 3, 7))
}

func TestColdStartWithoutReplay(t *testing.T) {
	s := newScript(t, false)
	s.do(Connected{}, "stop")
	s.do(Live{slot(1, 7)}, "")
	s.do(told(1), opened(started(1))+"; "+deliver(started(1), 7, 7))
	s.do(Live{slot(1, 9)}, deliver(started(1), 7, 9)) // past the hole at once
	s.do(Wanted{[]crdt.Span{{From: 8, To: 8}}}, "exhausted 8-8")
}

// A new connection to a process that the mesh knows by name goes on, whatever
// numbers and times say.
func TestSameStartIsTheSameProcess(t *testing.T) {
	for _, replay := range []bool{true, false} {
		s := newScript(t, replay)
		s.prior = Prior{Epoch: started(1), Anchor: 2, Floor: 9, LastSeq: 9, LastTS: slot(7, 9).TS}
		s.do(Connected{}, "stop")
		if replay {
			s.do(told(1), "replay 9")
			s.do(Replayed{slot(1, 12)}, deliver(started(1), 2, 12)) // its ring rolled over
			s.do(ReplayEnded{true}, "replay 10")
			s.do(Replayed{slot(1, 12)}, "stop; again 10")
			s.do(Replayed{slot(1, 12)}, "stop; exhausted 10-11")
		} else {
			s.do(told(1), "")
		}
		s.do(Live{slot(1, 20)}, deliver(started(1), 2, 20))
		if n := s.tr.Stats().Restarts; n != 0 {
			t.Fatalf("%d restarts", n)
		}
	}
}

// What the mesh holds of the process before is gone as soon as the engine tells
// another start, before its first batch.
func TestAnotherStartOpensAtOnce(t *testing.T) {
	s := newScript(t, true)
	s.prior = Prior{Epoch: started(1), Anchor: 1, Floor: 9, LastSeq: 9, LastTS: slot(1, 9).TS}
	s.do(Connected{}, "stop")
	s.do(told(2), opened(started(2))+"; replay 1")
	s.do(ReplayEnded{true}, "")
	s.do(Live{slot(2, 1)}, deliver(started(2), 1, 1))
}

// An engine's clock is set back by an hour before it restarts.
func TestALowerStartIsTheNextGeneration(t *testing.T) {
	s := newScript(t, false)
	s.prior = Prior{Epoch: started(9), Anchor: 1, Floor: 9, LastSeq: 9, LastTS: slot(9, 9).TS}
	name := uint64(1)<<48 | started(2)
	s.do(Connected{}, "stop")
	s.do(told(2), opened(name))
	s.do(Live{slot(2, 1)}, deliver(name, 1, 1))
	s.do(Connected{}, "stop")
	s.do(told(2), "")
	s.do(Live{slot(2, 3)}, deliver(name, 1, 3))
}

// An engine's clock is set back by an hour while it runs: no batch that goes on
// in numbers is late.
func TestAClockSetBackMakesNobodyDeaf(t *testing.T) {
	for _, tells := range []bool{true, false} {
		s := newScript(t, false)
		who := Identified{}
		if tells {
			who = told(5)
		}
		s.do(Connected{}, "stop")
		s.now += 10
		out := s.tr.Step(s.now, s.prior, who)
		s.learn(&out)
		for seq := uint64(1); seq <= 1200; seq++ {
			b := slot(5, seq)
			if seq > 2 {
				b.TS -= 3_600_000_000
			}
			out := s.tr.Step(s.now, s.prior, Live{b})
			if s.learn(&out); len(out.Deliver) != 1 {
				t.Fatalf("batch %d was not delivered: %+v", seq, s.tr.Stats())
			}
		}
	}
}

// Something between keeps the connection over a restart: numbers go back.
func TestNumbersThatGoBackAreIgnoredAndEndTheConnection(t *testing.T) {
	s := newScript(t, false)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1)))
	s.do(Live{slot(1, 40)}, deliver(started(1), 40, 40))
	for seq := uint64(1); seq < maxBackward; seq++ {
		s.do(Live{slot(2, seq)}, "")
	}
	s.do(Live{slot(1, 41)}, deliver(started(1), 40, 41)) // the row is broken
	for range maxBackward - 1 {
		s.do(Live{slot(2, 40)}, "")
	}
	s.do(Live{slot(2, 41)}, "stop; hang up")
	s.do(Live{slot(2, 42)}, "") // of the connection that ends
	s.do(Connected{}, "stop")
	s.do(told(2), opened(started(2)))
	s.do(Live{slot(2, 43)}, deliver(started(2), 43, 43))
}

// The mesh found a later process: this connection is to one that is gone, or two
// are behind one address. Only a new connection can tell.
func TestAnOutrankedConnectionIsGivenUp(t *testing.T) {
	s := newScript(t, false)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1)))
	s.do(Live{slot(1, 1)}, deliver(started(1), 1, 1))
	s.prior = Prior{Epoch: started(2), Anchor: 1, LastSeq: 1, LastTS: slot(2, 1).TS}
	s.do(Live{slot(1, 2)}, "stop; hang up")
	s.do(Connected{}, "stop")
	s.do(told(2), "")
	s.do(Live{slot(2, 2)}, deliver(started(2), 1, 2))
}

// Another owner knows a generation more of the process's name.
func TestAHigherNameOfTheSameStartIsTakenOver(t *testing.T) {
	s := newScript(t, false)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1)))
	s.do(Live{slot(1, 1)}, deliver(started(1), 1, 1))
	name := uint64(1)<<48 | started(1)
	s.prior = Prior{Epoch: name, Anchor: 1, LastSeq: 1, LastTS: slot(1, 1).TS}
	s.do(Live{slot(1, 2)}, deliver(name, 1, 2))
}

// Two processes behind one address alternate.
func TestProcessesThatAlternateAreQuarantined(t *testing.T) {
	s := newScript(t, false)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1)))
	s.do(Connected{}, "stop")
	s.do(told(2), opened(started(2)))
	s.do(Connected{}, "stop")
	s.do(told(1), opened(1<<48|started(1)))
	s.do(Connected{}, "stop")
	s.do(told(2), "stop")
	if s.tr.Phase() != Quarantined {
		t.Fatalf("phase %s", s.tr.Phase())
	}
	s.do(Live{slot(2, 1)}, "")
	s.now += quarantineMs
	s.do(Tick{}, "stop; hang up")
	s.do(Connected{}, "stop")
	s.do(told(2), opened(1<<48|started(2)))
}

// An engine that does not tell its start is believed to be the one before only
// if its replay, or the live stream, brings the last batch known.
func TestSilentEngineIsVerified(t *testing.T) {
	known := Prior{Epoch: named(1, 1), Anchor: 1, Floor: 9, LastSeq: 9, LastTS: slot(1, 9).TS}
	for name, play := range map[string]func(s *script){
		"its replay has it": func(s *script) {
			s.do(Replayed{slot(1, 9)}, deliver(named(1, 1), 1, 9))
			s.do(Replayed{slot(1, 10)}, deliver(named(1, 1), 1, 10))
			s.do(ReplayEnded{true}, "")
		},
		"it comes live": func(s *script) {
			s.do(Live{slot(1, 9)}, "replay 9")
			s.do(ReplayEnded{true}, deliver(named(1, 1), 1, 9))
		},
		"another owner brings to the mesh what comes live": func(s *script) {
			s.do(Live{slot(1, 12)}, "")
			s.prior.LastSeq, s.prior.LastTS = 12, slot(1, 12).TS
			s.do(Live{slot(1, 13)}, "replay 12")
			s.do(ReplayEnded{true}, deliver(named(1, 1), 1, 12, 13))
		},
		"its replay has another one": func(s *script) {
			s.do(Replayed{slot(2, 9)}, "replay 1")
			s.do(Replayed{slot(2, 4)}, opened(named(2, 4))+"; "+deliver(named(2, 4), 4, 4))
			s.do(ReplayEnded{true}, "")
		},
		"its replay has nothing": func(s *script) {
			s.do(ReplayEnded{true}, "replay 1")
			s.do(ReplayEnded{true}, "")
			s.do(Live{slot(2, 1)}, opened(named(2, 1))+"; "+deliver(named(2, 1), 1, 1))
		},
		"its replay does not reach back, and the other owner reads on": func(s *script) {
			s.do(Replayed{slot(1, 12)}, "")
			s.do(ReplayEnded{true}, "")
			s.do(Live{slot(1, 15)}, "")
			s.prior.LastSeq, s.prior.LastTS = 15, slot(1, 15).TS
			s.do(Tick{}, "replay 15")
			s.do(ReplayEnded{true}, deliver(named(1, 1), 1, 15))
		},
		"its replay does not reach back, and nobody reads on": func(s *script) {
			s.do(Replayed{slot(2, 12)}, "")
			s.do(ReplayEnded{true}, "")
			s.do(Live{slot(2, 15)}, "")
			s.now += holdMs
			s.do(Tick{}, "stop; replay 1")
			s.do(Replayed{slot(2, 12)}, opened(named(2, 12))+"; "+deliver(named(2, 12), 12, 12))
		},
		"the mesh knows it by another name": func(s *script) {
			s.do(Live{slot(1, 12)}, "")
			s.prior = Prior{Epoch: named(1, 12), Anchor: 12, LastSeq: 12, LastTS: slot(1, 12).TS}
			s.do(Tick{}, "replay 12")
			s.do(ReplayEnded{true}, deliver(named(1, 12), 12, 12))
		},
		"nothing proves it in time": func(s *script) {
			s.do(Live{slot(2, 30)}, "")
			s.now += holdMs
			s.do(Tick{}, "stop; replay 1")
			s.do(Replayed{slot(2, 29)}, opened(named(2, 29))+"; "+deliver(named(2, 29), 29, 29))
			s.do(ReplayEnded{true}, deliver(named(2, 29), 29, 30))
		},
		"the slot that gave the name is its first one": func(s *script) {
			s.do(ReplayEnded{true}, "replay 1")
			s.do(Replayed{slot(1, 1)}, deliver(named(1, 1), 1, 1))
		},
		"the mesh found another process meanwhile": func(s *script) {
			s.do(ReplayEnded{true}, "replay 1")
			s.prior = Prior{Epoch: named(3, 1)}
			s.do(Replayed{slot(2, 1)}, "stop; hang up")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, true)
			s.prior = known
			s.do(Connected{}, "stop")
			s.do(Identified{}, "replay 9")
			play(s)
		})
	}
}

// A process that says nothing proves nothing, however long: the time in which the
// other owner must bring what is held begins with the first batch.
func TestSilenceIsNoRestart(t *testing.T) {
	s := newScript(t, false)
	s.prior = Prior{Epoch: named(1, 1), Anchor: 1, Floor: 9, LastSeq: 9, LastTS: slot(1, 9).TS}
	s.do(Connected{}, "stop")
	s.do(Identified{}, "")
	s.now += 100 * holdMs
	s.do(Tick{}, "")
	s.do(Live{slot(1, 10)}, "")
	s.now += holdMs / 2
	s.prior.LastSeq, s.prior.LastTS = 10, slot(1, 10).TS
	s.do(Tick{}, deliver(named(1, 1), 1, 10))
	if n := s.tr.Stats().Restarts; n != 0 {
		t.Errorf("%d restarts", n)
	}
}

// What came over a connection that ended before it was known whose it is may be
// of a process that is gone, and so may be what a replay brings then.
func TestAConnectionThatEndsTakesItsSlotsWithIt(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(Live{slot(1, 5)}, "")
	s.do(Disconnected{}, "stop")
	s.do(told(1), "") // an answer too late
	s.do(Replayed{slot(1, 1)}, "")
	s.do(ReplayEnded{true}, "")
	s.do(Wanted{[]crdt.Span{{From: 1, To: 4}}}, "")
	s.do(Connected{}, "stop")
	s.do(told(2), opened(started(2))+"; replay 1")
	s.do(ReplayEnded{true}, "")
	if n := s.tr.Stats().Discarded; n != 1 {
		t.Fatalf("%d discarded", n)
	}
}

func TestReplayThatFailsStopsNothing(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1))+"; replay 1")
	s.do(Live{slot(1, 5)}, "")
	s.do(ReplayEnded{false}, "again 1")
	s.do(ReplayEnded{false}, deliver(started(1), 5, 5))
}

func TestAsksAgainWhenThereIsSomething(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1))+"; replay 1")
	s.do(ReplayEnded{true}, "") // a young engine
	s.do(Live{slot(1, 3)}, "replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(started(1), 1, 1))
	s.do(Replayed{slot(1, 2)}, deliver(started(1), 1, 2))
	s.do(ReplayEnded{true}, deliver(started(1), 1, 3))
}

func TestReplayIsLossy(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1))+"; replay 1")
	for _, seq := range []uint64{1, 2, 5, 6, 9} { // 3, 4, 7 and 8 were dropped on the way
		s.do(Replayed{slot(1, seq)}, deliver(started(1), 1, seq))
	}
	s.do(ReplayEnded{true}, "replay 3")
	s.do(Replayed{slot(1, 3)}, deliver(started(1), 1, 3))
	s.do(Replayed{slot(1, 4)}, deliver(started(1), 1, 4))
	s.do(Live{slot(1, 10)}, deliver(started(1), 1, 10)) // live slots do not wait for holes
	s.do(ReplayEnded{true}, "again 7")
	s.do(Replayed{slot(1, 8)}, deliver(started(1), 1, 8)+"; stop; again 7")
	s.do(ReplayEnded{true}, "again 7")
	s.do(ReplayEnded{true}, "exhausted 7-7")
}

func TestUnansweredReplayIsNoAnswer(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1))+"; replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(started(1), 1, 1))
	s.do(ReplayEnded{true}, "")
	s.do(Live{slot(1, 3)}, deliver(started(1), 1, 3))
	s.do(Wanted{[]crdt.Span{{From: 2, To: 2}}}, "replay 2")
	for range maxAttempts - 1 {
		s.do(ReplayEnded{false}, "again 2")
	}
	s.do(ReplayEnded{false}, "exhausted 2-2")
}

// A replay that broke off after it brought something that was known counts as one
// without progress: what it did not bring is given up sooner than what nobody
// answered.
func TestABrokenReplayIsAnAttempt(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1))+"; replay 1")
	for _, seq := range []uint64{1, 3, 5} {
		s.do(Replayed{slot(1, seq)}, deliver(started(1), 1, seq))
	}
	s.do(ReplayEnded{true}, "replay 2")
	s.do(Replayed{slot(1, 3)}, "")
	s.do(ReplayEnded{false}, "again 2")
	s.do(Replayed{slot(1, 3)}, "")
	s.do(ReplayEnded{false}, "exhausted 2-2; exhausted 4-4")
}

// What another owner heard and this one did not is asked for all the same.
func TestHolesAboveTheLastSlotAreAskedFor(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1))+"; replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(started(1), 1, 1))
	s.do(ReplayEnded{true}, "")
	s.prior.LastSeq, s.prior.LastTS = 9, slot(1, 9).TS
	s.do(Wanted{[]crdt.Span{{From: 5, To: 12}}}, "replay 5")
	if got := s.tr.fetch.missing; len(got) != 1 || got[0].To != 9 {
		t.Errorf("asks for %v", got)
	}
}

// The last slot stays the last when an older one fills a hole: it is what the
// process is known by after the connection ended.
func TestAnOldSlotIsNotTheLast(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1))+"; replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(started(1), 1, 1))
	s.do(Replayed{slot(1, 9)}, deliver(started(1), 1, 9))
	s.do(ReplayEnded{true}, "replay 2")
	s.do(Replayed{slot(1, 5)}, deliver(started(1), 1, 5))
	if got := s.tr.inc.last; got != (slotTime{9, slot(1, 9).TS}) {
		t.Errorf("the last slot is %+v", got)
	}
}

// A stream that loses every other batch takes no more memory for it.
func TestKnownSpansAreBounded(t *testing.T) {
	s := newScript(t, false)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1)))
	for seq := uint64(1); seq < 4*maxSpans; seq += 2 {
		s.do(Live{slot(1, seq)}, deliver(started(1), 1, seq))
	}
	if n := len(s.tr.inc.known); n != maxSpans {
		t.Errorf("%d spans", n)
	}
}

func TestUndecodableIsGivenUpAtOnce(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	s.do(told(1), opened(started(1))+"; replay 1")
	s.do(Replayed{slot(1, 1)}, deliver(started(1), 1, 1))
	s.do(ReplayEnded{true}, "")
	s.do(Undecodable{2}, "")
	s.do(Live{slot(1, 3)}, deliver(started(1), 1, 3))
	s.do(Wanted{[]crdt.Span{{From: 2, To: 2}}}, "exhausted 2-2")
}

// While the engine does not answer batches wait without end, but not without
// bound.
func TestWaitingForTheStartIsBounded(t *testing.T) {
	s := newScript(t, true)
	s.do(Connected{}, "stop")
	for seq := uint64(1); seq <= 3*heldSlots; seq++ {
		s.now += 10
		if out := s.tr.Step(s.now, s.prior, Live{slot(1, seq)}); len(out.Deliver) > 0 || len(s.tr.seek.held) > heldSlots {
			t.Fatalf("%+v, %d held", out, len(s.tr.seek.held))
		}
	}
	if st := s.tr.Stats(); st.Overflows != 2 || s.tr.Phase() != Asking {
		t.Fatalf("%s: %+v", s.tr.Phase(), st)
	}
}

// TestAForgottenNameIsNoNewOne: a mesh that gave a stream up keeps its epoch.
// Who finds the process again gives it the same name, by its start or by
// the batch that once gave it; nothing is opened and no restart is counted.
func TestAForgottenNameIsNoNewOne(t *testing.T) {
	first := crdt.Slot{Seq: 1, TS: 29_000}
	for _, start := range []uint64{0, 29} {
		find := func(p Prior) (Output, Stats) {
			tr := New(false)
			tr.Step(1, p, Connected{})
			tr.Step(1, p, Live{first})
			return tr.Step(1, p, Identified{start}), tr.Stats()
		}
		if out, _ := find(Prior{}); !out.Opened || out.Epoch != 29 || len(out.Deliver) != 1 {
			t.Fatalf("%+v", out)
		}
		out, stats := find(Prior{Epoch: 29, Anchor: 1})
		if out.Opened || out.Epoch != 29 || len(out.Deliver) != 1 || stats.Restarts != 0 {
			t.Errorf("start %d: %+v, %+v", start, out, stats)
		}
		if out, _ = find(Prior{Epoch: 28, Anchor: 1}); !out.Opened || out.Epoch != 29 || len(out.Deliver) != 1 {
			t.Errorf("start %d: another one of which only the name is left: %+v", start, out)
		}
	}
}

// TestSurvivesLies: an engine that lies about numbers and times, and a replay
// that fails, cost neither memory nor order: no panic, bounded holds, deliveries
// only from the anchor on, epochs that only rise.
func TestSurvivesLies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := New(rapid.Bool().Draw(t, "replay"))
		now, top := int64(1), uint64(0)
		seq := rapid.OneOf(rapid.Uint64Range(1, 12), rapid.Uint64Range(1, crdt.MaxSeq))
		lie := rapid.Custom(func(t *rapid.T) crdt.Slot {
			return crdt.Slot{Seq: seq.Draw(t, "seq"), TS: rapid.Int64Range(0, 30).Draw(t, "ts") * 1000}
		})
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, 3000).Draw(t, "ms")
			prior := Prior{Epoch: top}
			if rapid.Bool().Draw(t, "mesh") {
				s := lie.Draw(t, "prior")
				prior = Prior{Epoch: max(top, rapid.Uint64Range(1, 40).Draw(t, "epoch")), Anchor: rapid.Uint64Range(1, s.Seq).Draw(t, "anchor"), LastSeq: s.Seq, LastTS: s.TS}
			}
			var ev Event
			switch rapid.IntRange(0, 8).Draw(t, "event") {
			case 0:
				ev = Connected{}
			case 1:
				ev = Identified{rapid.Uint64Range(0, 40).Draw(t, "start")}
			case 2, 3:
				ev = Live{lie.Draw(t, "live")}
			case 4:
				ev = Replayed{lie.Draw(t, "replayed")}
			case 5:
				ev = ReplayEnded{rapid.Bool().Draw(t, "complete")}
			case 6:
				from := seq.Draw(t, "from")
				ev = Wanted{[]crdt.Span{{From: from, To: from + rapid.Uint64Range(0, 50).Draw(t, "n")}}}
			case 7:
				ev = Disconnected{}
			default:
				ev = Undecodable{seq.Draw(t, "bad")}
			}
			out := tr.Step(now, prior, ev)
			for _, s := range out.Deliver {
				if s.Seq < out.Anchor || out.Epoch == 0 {
					t.Fatalf("delivered slot %d below anchor %d of epoch %d", s.Seq, out.Anchor, out.Epoch)
				}
			}
			if out.Opened && out.Epoch <= prior.Epoch {
				t.Fatalf("opened %d, the mesh is at %d", out.Epoch, prior.Epoch)
			}
			if len(out.Deliver) > 0 {
				top = max(top, out.Epoch)
			}
			if len(tr.inc.known) > maxSpans || len(tr.seek.held) > heldSlots || len(tr.fetch.missing) > maxSpans {
				t.Fatalf("unbounded: %d known, %d held, %d missing", len(tr.inc.known), len(tr.seek.held), len(tr.fetch.missing))
			}
		}
	})
}

// BenchmarkTracker is the cost of one live slot.
func BenchmarkTracker(b *testing.B) {
	tr := New(false)
	tr.Step(0, Prior{}, Connected{})
	tr.Step(0, Prior{}, told(1))
	seq := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		if out := tr.Step(1000, Prior{}, Live{slot(1, seq)}); len(out.Deliver) != 1 {
			b.Fatal(fmt.Sprint(seq, out))
		}
	}
}
